"""`memory.summaries`: a session's older part as a rolling summary, its newest messages verbatim."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from memkit_core.config import Config
from memkit_core.conversation.summarizers import checked_summarizer, usable_summary
from memkit_core.conversation.tagged import behind_summary, spoken, summary_message
from memkit_core.conversation.tokens import message_tokens, resolve_token_counter, tokens_of
from memkit_core.conversation.windows import fitted, repaired, shortened, system_of, whole_groups
from memkit_core.errors import BackendError, InvalidInputError, ScopeError, shown
from memkit_core.inputs import checked_count
from memkit_core.live import Live
from memkit_core.locks import ThreadLock
from memkit_core.models import DeleteReceipt, Message, Summary
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_SUMMARIES
from memkit_core.ports import RecordStore, Summarizer, TokenCounter
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.stores.turns import words_of
from memkit_core.times import Clock

_log = logging.getLogger("memkit")
_PAGE = 64
_LARGEST = 2**31
_UNSAVED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryUpdate:
    """What one `update` did.

    Attributes:
        summary: the summary that holds now, None when there is none.
        changed: whether this call made it.
        saved: False when it is used in this process only, because the store could not keep it.
        pending: whether more than one call could take in still waits; the next one goes on.
        error: what failed, None when nothing did.
    """

    summary: Summary | None
    changed: bool = False
    saved: bool = True
    pending: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryContext:
    """What goes to the model instead of a whole session.

    Attributes:
        messages: system messages, the one tagged summary message if there is a summary, and the
            messages behind it, verbatim but for repair: valid for a chat API.
        summary: the summary among them.
        omitted: whether messages that no summary covers were left out or cut to fit.
        saved: False when the store does not have the summary yet.
    """

    messages: tuple[Message, ...]
    summary: Summary | None
    omitted: bool
    saved: bool


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """A summary the store could not keep, with what it must still find to keep it."""

    summary: Summary
    after: int
    messages: int


@observed(OF_SUMMARIES)
class Summaries(Live):
    """Makes, reads and deletes the rolling summaries of sessions. Thread-safe.

    A summary covers the messages up to a position, which only moves forward, also when several
    processes summarise at once. It is deleted with its session, and when a message that it covers is
    deleted or replaced by one that says something else; the next `update` then begins anew.
    """

    def __init__(self, store: RecordStore, config: Config, clock: Clock) -> None:
        """Work on `store`."""
        self._store = store
        self._config = config
        self._clock = clock
        self._lock = ThreadLock()
        self._unsaved: OrderedDict[Scope, _Unsaved] = OrderedDict()
        self._last_error: str | None = None

    @property
    def last_error(self) -> str | None:
        """The last failure of an `update` in this process, None since one succeeded. For operators."""
        return self._last_error

    def get(self, *, scope: Scope) -> Summary | None:
        """The summary of a session, None when there is none.

        One that the store could not keep is tried again first.
        """
        return self._current(_session(scope, "get"))[0]

    def update(
        self,
        *,
        scope: Scope,
        summarizer: Summarizer | None = None,
        threshold: float | None = None,
        model_window: int | None = None,
        keep: int | None = None,
        count: TokenCounter | None = None,
    ) -> SummaryUpdate:
        """Summarise the older part of a session when what goes to the model is above a threshold.

        Meant to be called once a turn, after it. At most one call of the summarizer, with the
        summary so far and only the messages behind it, at most `threshold` tokens of them. When it
        raises, or answers with what is no summary, nothing changes and `error` says so. An answer
        that is too long is cut to `Config.summary_max_tokens`, and to half of the threshold.

        Args:
            scope: the session.
            summarizer: how; `ChatSummarizer(model)` asks a chat model; `ExtractiveSummarizer`, which
                needs none, when None.
            threshold: tokens of system messages, summary and the messages behind it above which
                it summarises; a number below 1 is that fraction of `model_window`. Default
                `Config.summary_threshold`.
            model_window: the tokens the model takes; needed for a fraction.
            keep: so many of the newest messages, and more where a call would lose its result, stay
                verbatim; `Config.summary_keep` when None.
            count: counts tokens, see `resolve_token_counter`.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a threshold or number that cannot be, or no summarizer.
            BackendError: the session cannot be read.
        """
        session = _session(scope, "update")
        limit = self._limit(threshold, model_window)
        summarize = checked_summarizer(summarizer)
        keep = checked_count(
            self._config.summary_keep if keep is None else keep, "update: keep", most=_LARGEST
        )
        counter = resolve_token_counter(count)
        previous, saved = self._current(session)
        after = -1 if previous is None else previous.position
        messages, ended = self._behind(session, after, limit, counter)
        if ended and self._size(session, previous, messages, counter) <= limit:
            return SummaryUpdate(summary=previous, saved=saved)
        inputs, covered = self._taken(session, messages, limit, keep, counter)
        if not covered:
            return SummaryUpdate(summary=previous, saved=saved)
        text = error = None
        # A summary that alone was above the threshold would be made anew in each turn.
        most = min(self._config.summary_max_tokens, max(limit // 2, 1))
        try:
            answer = summarize("" if previous is None else previous.text, inputs, most)
        except Exception as failure:  # noqa: BLE001 - a model may raise anything; the chat goes on without it
            error = f"the summarizer failed: {type(failure).__name__}: {shown(str(failure))}"
        else:
            text, error = usable_summary(answer, most, counter, inputs)
        if text is None:
            return self._failed(previous, saved=saved, error=error)
        position = messages[covered - 1].position or 0
        made = Summary(session=session, text=text, position=position, updated_at=self._clock())
        result = self._keep(made, after=after, messages=messages[:covered])
        return SummaryUpdate(
            summary=result.summary, changed=result.changed, saved=result.saved, error=result.error,
            pending=not ended,
        )  # fmt: skip

    def context(
        self, *, scope: Scope, max_tokens: int | None = None, count: TokenCounter | None = None
    ) -> SummaryContext:
        """What to send to the model; never calls a model and costs what it returns, not the history.

        Args:
            scope: the session.
            max_tokens: the most tokens; `Config.summary_threshold` when None. Where the messages
                behind the summary are more, the newest whole turns stay.
            count: counts tokens, see `resolve_token_counter`.
        """
        session = _session(scope, "context")
        counter = resolve_token_counter(count)
        limit = self._config.summary_threshold if max_tokens is None else max_tokens
        limit = checked_count(limit, "context: max_tokens", most=_LARGEST)
        summary, saved = self._current(session)
        system = system_of(self._store.log.system_messages(session))
        tail, ended = self._newest(session, -1 if summary is None else summary.position, limit, counter)
        tagged = [] if summary is None else [summary_message(summary)]
        whole = [*tagged, *repaired(tail)]
        room = max(limit - tokens_of(system, counter), 0)
        if tagged:
            chosen = behind_summary(tagged[0], whole[1:], room, counter)
        else:
            chosen = fitted(whole, max_tokens=room, count=counter)
        omitted = not ended or len(chosen) < len(whole) or tokens_of(whole, counter) > room
        return SummaryContext(messages=(*system, *chosen), summary=summary, omitted=omitted, saved=saved)

    def clear(self, *, scope: Scope) -> DeleteReceipt:
        """Delete the summary of a session; its messages stay and can be summarised again. Idempotent."""
        session = _session(scope, "clear")
        with self._lock:
            unsaved = self._unsaved.pop(session, None)
        receipt = self._store.log.clear_summary(session)
        return DeleteReceipt(summaries=1) if unsaved is not None else receipt

    # ------------------------------------------------------------------ reading

    def _current(self, session: Scope) -> tuple[Summary | None, bool]:
        """The summary that holds, and whether the store has it."""
        with self._lock:
            unsaved = self._unsaved.get(session)
        if unsaved is not None:
            try:
                self._store.log.save_summary(unsaved.summary, after=unsaved.after, messages=unsaved.messages)
            except BackendError:
                # What cannot be written cannot have been overtaken or deleted either.
                return unsaved.summary, False
            with self._lock:
                if self._unsaved.get(session) is unsaved:
                    del self._unsaved[session]
        return self._store.log.summary(session), True

    def _behind(
        self, session: Scope, after: int, limit: int, count: TokenCounter
    ) -> tuple[list[Message], bool]:
        """The messages behind a position, oldest first, and whether these are all.

        Read until they are more than `limit` tokens and a page further, so that a call at the limit
        is seen with its results.
        """
        newest = self._store.log.read(session, last=1)
        end = (newest[0].position or 0) if newest else -1
        found: list[Message] = []
        tokens, full = 0, False
        while after < end and not full:
            full = tokens > limit
            page = self._store.log.read(session, last=_PAGE, before=after + 1 + _PAGE)
            page = [message for message in page if (message.position or 0) > after]
            tokens += tokens_of(spoken(page), count)
            found += page
            after += _PAGE
        return found, after >= end

    def _newest(
        self, session: Scope, after: int, limit: int, count: TokenCounter
    ) -> tuple[list[Message], bool]:
        """What was said behind a position, as far back as `limit` tokens go, and whether that is all."""
        tail: list[Message] = []
        page = self._store.log.read(session, last=_PAGE)
        tokens = 0
        while page:
            first = page[0].position or 0
            new = spoken([message for message in page if (message.position or 0) > after])
            tail = new + tail
            tokens += tokens_of(new, count)
            if len(page) < _PAGE or first <= after + 1:
                return tail, True
            if tokens > limit:
                return tail, False
            page = self._store.log.read(session, last=_PAGE, before=first)
        return tail, True

    def _size(
        self, session: Scope, summary: Summary | None, messages: Sequence[Message], count: TokenCounter
    ) -> int:
        own = [] if summary is None else [summary_message(summary)]
        return tokens_of(
            [*system_of(self._store.log.system_messages(session)), *own, *spoken(messages)], count
        )

    def _taken(
        self, session: Scope, messages: Sequence[Message], limit: int, keep: int, count: TokenCounter
    ) -> tuple[list[Message], int]:
        """The input of the next call of a summarizer, and how many of `messages` it covers."""
        newest = spoken(self._store.log.read(session, last=max(_PAGE, keep)))
        first_kept = (newest[-keep].position or 0) if len(newest) >= keep else 0
        end = sum((message.position or 0) < first_kept for message in messages)
        if end < len(messages):
            # The group that what stays belongs to stays whole, however little room there is.
            end = whole_groups(messages, end)
        inputs: list[tuple[int, Message]] = []
        room, most = limit, 0
        for place, message in enumerate(messages[:end]):
            if spoken([message]):
                small = shortened(message, max(limit // 2, 1), count)
                room -= message_tokens(small, count)
                if room < 0 and inputs:
                    break
                inputs.append((place, small))
            most = place + 1
        # A group that is larger than what one call takes is split rather than never summarised.
        covered = whole_groups(messages, most) or (most if room < 0 else 0)
        return [message for place, message in inputs if place < covered], covered

    # ------------------------------------------------------------------ writing

    def _limit(self, threshold: float | None, model_window: int | None) -> int:
        if threshold is None:
            return self._config.summary_threshold
        if (
            isinstance(threshold, bool)
            or not isinstance(threshold, int | float)
            or not 0 < threshold < _LARGEST
        ):
            raise InvalidInputError(
                f"update: threshold must be a number above 0 and below {_LARGEST}, got {shown(threshold)}"
            )
        if threshold >= 1:
            return int(threshold)
        if model_window is None:
            raise InvalidInputError("update: a fraction as threshold needs model_window, the model's tokens")
        return max(int(threshold * checked_count(model_window, "update: model_window", most=_LARGEST)), 1)

    def _keep(self, made: Summary, *, after: int, messages: Sequence[Message]) -> SummaryUpdate:
        result = self._saved(made, after=after, messages=len(messages))
        if result.changed and result.saved:
            # A message that was replaced while the model thought; later ones the store sees to.
            now = self._store.log.read(made.session, last=len(messages), before=made.position + 1)
            if [words_of(message) for message in now] != [words_of(message) for message in messages]:
                self._store.log.clear_summary(made.session)
                return SummaryUpdate(summary=None)
        return result

    def _saved(self, made: Summary, *, after: int, messages: int) -> SummaryUpdate:
        session = made.session
        with self._lock:
            unsaved = self._unsaved.get(session)
        if unsaved is not None:
            # The store still has what came before the one it could not keep.
            after, messages = unsaved.after, unsaved.messages + messages
        try:
            kept = self._store.log.save_summary(made, after=after, messages=messages)
        except BackendError as error:
            with self._lock:
                self._unsaved[session] = _Unsaved(made, after, messages)
                self._unsaved.move_to_end(session)
                while len(self._unsaved) > _UNSAVED:
                    self._unsaved.popitem(last=False)
            self._last_error = f"the summary was not saved: {error}"
            _log.warning("%s", self._last_error)
            return SummaryUpdate(summary=made, changed=True, saved=False, error=self._last_error)
        with self._lock:
            self._unsaved.pop(session, None)
        self._last_error = None
        if kept:
            return SummaryUpdate(summary=made, changed=True)
        # Somebody else was quicker, or what it covers was deleted: what the store has, holds.
        return SummaryUpdate(summary=self._store.log.summary(session))

    def _failed(self, summary: Summary | None, *, saved: bool, error: str | None) -> SummaryUpdate:
        self._last_error = error
        _log.warning("summaries.update: %s; the summary stays as it is", error)
        return SummaryUpdate(summary=summary, saved=saved, error=error)


def _session(scope: object, verb: str) -> Scope:
    session = require_scope(scope, verb=f"summaries.{verb}")
    if session.kind is not ScopeKind.SESSION:
        raise ScopeError(
            f"summaries.{verb}: scope must be a session, Scope.session(id, user=...), got {shown(session)}"
        )
    return session
