"""Sphinx's settings for the site. ``build_site.py`` gathers the pages and runs Sphinx."""

project = "retrograd"
extensions = ["myst_parser", "sphinx_copybutton"]

html_title = "retrograd"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

highlight_language = "none"  # of blocks that name none: they are output
smartquotes = False  # which would change values in quotes
toc_object_entries_show_parents = "hide"
pygments_style = "default"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
