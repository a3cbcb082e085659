"""Ways to assign credit: each file supplies one `Method`; penalty and freezing combine with any of them."""
