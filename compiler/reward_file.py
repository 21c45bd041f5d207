"""Rewards that come from elsewhere than the proxy: JSON lines, each as it could have been posted."""

from pathlib import Path

from turnstile.addon.tracelog.posted import PostedError, posted_object, posted_reward
from turnstile.compiler.errors import RewardFileError
from turnstile.compiler.rewards import GivenReward, RewardsByGroup


def read_rewards(path: Path) -> RewardsByGroup:
    """The rewards in a file of lines {"group_id", "rollout_id"?, "sequence_id"?, "reward", "metadata"?}.

    In file order; blank lines are passed over. Raises RewardFileError for the first line that is none,
    OSError when the file cannot be read.
    """
    found: dict[str, list[GivenReward]] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                reward = posted_reward(posted_object(line), at=0.0)
            except PostedError as error:
                raise RewardFileError(f"{path}, line {number}: {error}") from error
            found.setdefault(reward.group_id, []).append(GivenReward(reward, path.name, line=number))
    return found
