"""Images: which ones a request holds, which tokens stand for them, and what a processor makes of them.

    the request's parts -> images -> spans of placeholder tokens -> (an image processor's tensors)

An image is the bytes that were sent, known by their SHA-256; how its URL was spelled does not matter.
"""
