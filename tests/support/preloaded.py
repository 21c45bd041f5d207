"""What the process that the proxies of tests are forked off has made, once for all of them."""

from turnstile.addon.backends.direct import direct_opener

direct_opener()
