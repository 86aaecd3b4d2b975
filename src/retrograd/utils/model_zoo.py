"""``torch.utils.model_zoo``: older names for ``torch.hub``."""

from retrograd.hub import load_state_dict_from_url

load_url = load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]
