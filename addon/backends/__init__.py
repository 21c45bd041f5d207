"""What inference servers are asked for, and how their replies are read and handed on.

Knows SGLang's and vLLM's wire formats and nothing of proxies: the compiler reads recorded replies with it.
Depends on orjson and the standard library.
"""
