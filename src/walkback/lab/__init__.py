"""The lab: where networks are made and studied, with the tool as anyone would use it. The tool never imports it."""
