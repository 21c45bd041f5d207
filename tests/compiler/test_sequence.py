import numpy as np

from turnstile.compiler.sequence import Call, TrainingSequence


def test_the_loss_mask_is_true_where_a_segment_is_trained() -> None:
    sequence = TrainingSequence(
        sequence_id="e1.0",
        group_id="g",
        rollout_id=None,
        tokens=np.array([1, 2, 3, 4, 5, 6], np.int32),
        logprobs=np.zeros(6),
        segment_info=((False, 2), (True, 1), (True, 1), (False, 1), (True, 1)),
        weight_versions=(),
        exchanges=(Call("e1", 0),),
        finish_reasons=("stop",),
        sampling=({},),
    )
    assert sequence.loss_mask.tolist() == [False, False, True, True, False, True]
    assert sequence.routed_experts_shape is None
