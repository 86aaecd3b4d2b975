"""Training runs: what ``retrograd train`` does.

- ``digits``, ``chars``: what is trained, on which data;
- ``_settings``, ``_config``: what can be set, and files that set it;
- ``_loop``: the steps, in PyTorch's names; ``_run``: a run with its files around them;
- ``_folder``, ``_metrics``, ``_curves``, ``_progress``: the files, and what is shown meanwhile;
- ``command``: the options of the command line.
"""
