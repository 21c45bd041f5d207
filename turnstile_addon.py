"""The script for `mitmdump -s turnstile_addon.py`; the addon itself is turnstile.addon.capture."""

from turnstile.addon.capture import addon
from turnstile.live_merging import LiveMerging

addons = [addon(LiveMerging())]
