"""Routed experts: which experts of a mixture-of-experts model every token went through.

reading    one answer's routing, decoded and checked     (decoding, trust)
all_rows   the rows that it leaves out, where a second answer tells them
joined     what a sequence knows of its rows, from all of its turns
outcome    what a sequence's file says of its routing
"""
