"""Why turns did not go on an earlier sequence, told from their tokens, their requests and their texts.

splits        the splits of a log, one group at a time
kinds         what made a split: the rules                      (kind, pair, json_spelling)
said          what two exchanges said, and where they differ    (said_difference)
parting       where two paths of ids part, and come together again
token_texts   the bytes of ids: from a tokenizer, or from what a log's answers tell   (checked_tokenizer)
split         one split as a value                              (spelled_ids)
"""
