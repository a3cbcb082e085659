"""A report as text, Markdown, LaTeX and HTML. Everything here reads records, never tensors."""
