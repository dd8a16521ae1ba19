"""Does a reply say that the model does not know?

The prompts of Concat and Post-Fusion end with "if you don't know the answer, just say Unknown"
(Liu et al., section 4). Real models also refuse in their own words; `is_unknown` reads both.
"""

from __future__ import annotations

import re

from ragweave.tools.text.reply import without_thinking

UNKNOWN = "Unknown"
"""The literal answer of a run that found none."""

_EDGE = 800
"""Characters read at either end of a long reply; the middle never decides."""

_WORDS = """
unknown|none mentioned|none stated|not mentioned|not stated|no info|insufficient info|未提及|无法确定|无法回答|
unkown|n/a|n.a|n / a|not applicable|dunno|idk|i dunno|unanswerable|undetermined|
unspecified|unclear|no answer|no idea|no clue|don't know|do not know|answer unknown|
unbekannt|inconnu|inconnue|desconocido|desconocida|sconosciuto|sconosciuta|desconhecido|
desconhecida|onbekend|okänd|okänt|ukendt|ukjent|tuntematon|nieznany|nieznane|nieznana|
neznámý|neznámé|neznámo|bilinmiyor|ismeretlen|necunoscut|άγνωστο|неизвестно|неизвестен|
неизвестна|невідомо|غير معروف|مجهول|अज्ञात|不明|不明です|未知|不详|不詳|不知道|我不知道|
わからない|わかりません|分かりません|알 수 없음|모름|모르겠습니다|ich weiß es nicht|
ich weiß nicht|keine angabe|je ne sais pas|no lo sé|no sé|non lo so|não sei|no se sabe|
weet ik niet|ik weet het niet|nie wiem|не знаю|я не знаю
"""
"""Whole replies that mean unknown: English, then other languages, each in its common genders."""

_MARKUP = re.compile(r"```[a-z]*\n|</?[a-z][^<>\n]{0,30}>|\\(?:boxed|text)\b|[*_`~#>|]")
_PADDING = " \t\r\n\"'“”‘’«».,;:!?…()[]{}<>-–—\\/。、，！？：「」『』"
_STOP = re.compile(r"(?<=[.!?])\s+|[\n。！？]+")
_CONCLUSION = re.compile(
    r"\b(?:the|my) (?:(?:final|correct|short) )?answer(?: to [^.:\n]{1,80})? (?:is|would be|:)"
    r"|(?:^|\n|[.!?] )(?:the|my) (?:(?:final|correct|short) )?answer:"
    r"|\bto answer your question(?: directly)?[,:]"
    r"|(?:^|\n|\bfinal )\W{0,4}(?:answer|a|antwort|réponse|respuesta|risposta|resposta|答案)"
    r"[\"' ]{0,2}[:：]"
)
_FILLER = re.compile(
    r"(?:(?:so|therefore|thus|hence|consequently|overall|well|hmm|unfortunately|sadly|regrettably|"
    r"that|currently|(?:i'm |i am |we're )?(?:very |so )?sorry|i(?:'m| am) afraid(?: that)?|i apologi[sz]e|apologies|as such|"
    r"in conclusion|as an ai\b[^,.;:\n]{0,60}(?=,)|as an ai(?: \w+){0,3}|as a (?:\w+ ){0,4}(?:ai|language model)(?: \w+){0,2}"
    r"|i(?:'m| am) (?:just |only )?(?:an? )?(?:large )?(?:ai|language model)(?: \w+){0,2}"
    r"|i must inform you that|(?:based on|according to|given|from|in)"
    r"(?: \w+){0,6}? (?:passages?|context|text|information|documents?|input)(?: \w+){0,2}?)"
    r"(?:,? but\b|,|:| (?=\w)|$)\s*)"
)
_CONTRACTED = re.compile(
    r"\b(?:(?P<verb>do|does|did|is|are|was|were|could|would|has|have)n't|(?P<can>can't|can not)"
    r"|(?P<subject>there|it|that|what|who|nothing)'s)\b"
)
_SOURCE = (
    r"(?:(?:passages?|contexts?|texts?|documents?|information|inputs?|articles?|sources?|details?|"
    r"paragraphs?|excerpts?|snippets?|content|prompt|search results?|sentences?)\b(?: \d+)?)"
)
_SOURCES = rf"(?:(?:the|these|this|those|your|any|all|of|my|both) )*(?:\w+ ){{0,3}}{_SOURCE}"
_GIVES = r"(?:say|give|make|contain|provide|offer|tell|include|state|mention|hold)s?|ha(?:s|ve)"
_MISSING = (
    r"(?:mentioned|specified|stated|given|provided|addressed|discussed|disclosed|indicated|listed"
    r"|explained|determined|available|known|included|named|covered|revealed|identified)"
)
_IN_SOURCE = (
    rf"(?: (?:in|by|from|within|on)\b(?: \w+){{0,4}}? {_SOURCE}| anywhere| at all|$|[,;(]| -)"
)
_LEAD = re.compile(
    r"(?:based on|according to|given|from|in|as per|judging by|with|without) (?:[^\s,.;:]+ ){0,7}?"
    r"(?:passages?|contexts?|texts?|information|documents?|inputs?|details|data|articles?)"
    r"(?: [^\s,.;:]+){0,3}?(?:, ?| (?=(?:i|it|we|there|the answer) ))"
)
_NOT = r"(?:(?:do|does|did|is|are|was|were|could|can|have|has)(?: not|n't)|cannot|can not|can't)"
_ADVERB = r"(?:(?:\w+ly|even|really|currently) )?"
_ASK = (
    r"(?:who|whom|whose|what|when|where|which|whether|if|why|how (?:many|much|long|old|far|\w+ly))"
)
_TOLD = (
    r"(?:mentioned|specified|stated|given|provided|addressed|answered|answerable|discussed|named|"
    r"disclosed|indicated|available|found|included|listed|clear|known|explained|determined)"
)
_TELL = (
    r"(?:say|mention|state|specify|contain|provide|include|give|tell|indicate|answer|reveal|list|"
    r"discuss|address|explain|have|identify|describe|refer|name|show|appear|seem|clarify|disclose|"
    r"offer|help|talk|relate|allow|directly)(?:s|es)?\b"
)
_SEEK = r"(?:determine|answer|find|say|tell|know|infer|identify|provide|conclude|ascertain|locate)"
_MAKER = r"(?:director|writer|composer|producer|founder|creator|winner|nationality|occupation|birthplace)"
_WHERE = r"(?:$|[,;:(–—]| (?:in|by|from|within|on|based|because|since|as|given|at this|anywhere)\b)"
_REFUSALS = re.compile(
    "|".join(
        f"(?:{one})"
        for one in (
            # the model speaks of itself
            r"(?:i|we) (?:\w+ly )?(?:do not|don't|dont|didn't|did not) (?:\w+ly )?(?:know"
            rf"(?:$|\W*$|[,;:.(–—]| (?:the|this|that|based|from|about|any|enough|for|{_ASK})\b)"
            r"|have (?:\w+ ){0,3}(?:information|knowledge|answer|context|access|details|data)"
            r"|see (?:\w+ ){0,3}(?:information|mention|answer))",
            r"(?:i|we) (?:cannot|could not) (?:\w+ly )?(?:find|see|locate|identify)\b",
            r"(?:i|we) (?:would )?(?:need|require) (?:more|further|additional|another) ",
            r"(?:more|further|additional) (?:information|context|details?) (?:is|are|would be) "
            r"(?:needed|required|necessary)",
            r"(?:no one|nobody) knows\b",
            r"(?:i|we) (?:cannot|could not) (?:say|tell)\W*$",
            r"(?:this|the|your) question (?:[^.;]{0,30} )?(?:is|was|cannot be|can't be) "
            r"(?:unanswerable|not answerable|answered\b|not (?:accurate|valid|correct)\b)",
            r"the (?:information|premise)(?: \w+){0,4} is not (?:accurate|correct|valid)\b",
            r"there (?:is|are|was|were) no (?:\w+ ){0,2}?(?:records?|evidence|such)\b",
            r"there (?:is|are|was|were) no (?:\w+ ){0,4}?(?:called|named|titled|by (?:the|that) name)\b",
            r"(?:i apologi[sz]e|(?:i am |i'm )?(?:very |so )?sorry|unfortunately),? (?:but )?there "
            r"(?:is|are|was|were) no\b",
            rf"there (?:is|are) no (?:\w+ ){{0,2}}{_SOURCE}",
            rf"{_SOURCES} [^.;]{{1,120}}?(?:,? but|,|,? yet) not (?:about|who|what|when|where|which|why"
            r"|how|its|the)\b",
            rf"{_SOURCES} [^.;]{{1,120}}?, (?:but|yet) (?:\w+ ){{1,4}}(?:is|are) not {_MISSING}\b",
            r"(?:i|we) [^.;]{0,80}?,? (?:and|but) (?:neither|none|nothing)\b",
            r"(?:i|we) [^.;]{0,60}?\b(?:found|find|see|saw) (?:nothing|no)\b",
            r"(?:i was|we were) (?:unable|not able) to\b|we are not told\b",
            r"no (?:\w+ ){1,4}?(?:is|are|was|were) (?:given|provided|mentioned|stated|specified|named"
            r"|found|available|included|offered)\b",
            rf"[^.;]{{1,120}}, but (?:the|these) (?:\w+ ){{0,2}}{_SOURCE} only\b",
            rf"[^,;:]{{1,200}} (?:is|are|was|were) (?:not made clear\b|nowhere {_MISSING}\b"
            rf"|not (?:present |contained |something )?(?:in |within |among )?(?:the|these|any of the|either)"
            rf" (?:\w+ ){{0,2}}{_SOURCE})",
            rf"(?:(?:i|we) )?(?:cannot|can not|can't|could not|couldn't) {_ADVERB}"
            rf"(?:answer|determine|be sure|find (?:the|any|an|this|information)|provide|say {_ASK}"
            rf"|tell (?:from|based|{_ASK})|be (?:\w+ly )?(?:determined|answered|inferred|known)"
            r"|give (?:you )?(?:an?|the|any) (?:\w+ )?answer\b)",
            r"(?:an?|the|any) (?:\w+ )?answer (?:is not possible|cannot be given)\b",
            r"no (?:\w+ )?answer (?:is possible|can be given)\b",
            r"(?:i am|i'm|we are|we're) (?:not (?:sure|certain|aware|familiar|able)|unsure|unable)",
            r"(?:i|we) have no (?:idea|information|knowledge|answer|clue)",
            rf"(?:unable|not able|not possible|impossible) to {_SEEK}",
            r"(?:not sure|no idea|don't know)(?:$|[,;.])",
            # the model speaks of the passages
            rf"(?:(?:the|these|this|those|your|any|all|of|my) )*(?:\w+ ){{0,3}}{_SOURCE}"
            rf"(?: \w+){{0,6}}? {_NOT} {_ADVERB}(?:{_TELL}|enough|sufficient|relevant|clear"
            r"|be used|related|about|helpful|any)",
            rf"(?:none|neither|no|not one)\b(?: of)?(?: (?:the|these|those))?(?: \w+){{0,3}}? "
            rf"{_SOURCE}(?: \w+){{0,4}}? (?:{_TELL}|(?:is|are|was|were|can|could|will)\b)",
            rf"(?:the|these|this) (?:\w+ ){{0,3}}{_SOURCE} (?:is|are) "
            r"(?:insufficient|unclear|irrelevant|unrelated|silent|not)",
            rf"{_SOURCES} (?:\w+ly )?(?:(?:{_GIVES}) (?:absolutely )?(?:nothing|no)\b"
            rf"|(?:fails?|failed) to\b|lacks?\b|never (?:{_GIVES})\b|(?:neither|nowhere) )",
            rf"{_SOURCES} [^.;]{{1,120}}? (?:and|but) (?:(?:they|it|does|do) )?(?:(?:gives?|says?|names?|states?) (?:no|nothing)\b"
            r"|(?:does |do )?not\b|never\b|neither\b|nothing\b|no (?:mention|information)\b)",
            r"nothing (?:is|was|in|about|on)\b[^.;]{0,80}?(?:said|mentioned|stated|tells?|says?"
            r"|mentions?|indicates?|known|found|given)\b",
            r"(?:does|do|did) not (?:say|mention|state|specify|answer)\b",
            r"(?:it|this|they) (?:does not|doesn't|do not|don't) (?:say|mention|state|specify)",
            r"there (?:is|are|was|were)(?: not|n't)?(?: \w+){0,2}? (?:insufficient|nothing in"
            r"|(?:no|not|enough|any|sufficient) (?:\w+ ){0,3}?(?:information|mention|answer|context"
            r"|details?|data|indication|reference|evidence in))\b",
            # no subject, or the answer as subject
            rf"not (?:\w+ly |yet )?{_TOLD}{_WHERE}",
            rf"(?:not|in) (?:in|enough|sufficient) (?:\w+ ){{0,2}}?(?:{_SOURCE}|data|evidence|info\b)",
            r"insufficient (?:\w+ )?(?:information|context|data|evidence|details)",
            rf"no (?:\w+ ){{0,3}}?(?:information|answer|mention|data|context|details?)"
            r"(?:$|[,;]| (?:is|was|are|were) (?:given|found|provided|available|mentioned|stated"
            r"|included|there|known)\b|"
            rf" (?:can|could|about|on|of|regarding|found|given|{_ASK})\b"
            rf"|(?: \w+)*? (?:in|provided|available)\b)",
            rf"(?:it|this|that|the (?:\w+ )?(?:answer|question|information|date|year|time|name"
            rf"|number|identity|author|reason|origin|cause|location|place|person|amount)(?: \w+)"
            rf"{{0,10}}?) (?:(?:is|are|was|were|remains?)(?: \w+ly| still)? (?:not (?:\w+ly )?"
            rf"{_TOLD}(?:{_WHERE}| {_ASK}\b)|(?:unknown|unclear|unspecified|uncertain)"
            rf"(?:{_WHERE}| {_ASK}\b)|(?:not possible|impossible) to {_SEEK}|unanswerable)"
            rf"|(?:cannot|can not|can't|could not|couldn't) be {_ADVERB}\w+(?:ed|n|wn)\b)",
            rf"[^,;:]{{1,200}} (?:is|are|was|were) (?:not|never) {_ADVERB}(?:{_TOLD} (?:in|by) "
            rf"(?:\w+ ){{0,4}}?{_SOURCE}|{_MISSING}{_IN_SOURCE})",
            rf"[^,;:]{{1,200}} (?:is|are|was|were|remains?) (?:unknown|unclear|unspecified"
            rf"|uncertain|missing){_IN_SOURCE}",
            r"(?:it|this|that|the [^,;:]{1,200}) costs? unknown$",
            rf"(?:information|details?|answer) not {_ADVERB}(?:{_MISSING}|found)\b",
            rf"there (?:is|are|was|were) no (?!minimum|maximum|limit|exception)(?:\w+ ){{1,4}}(?:mentioned"
            rf"|specified|stated){_IN_SOURCE}",
            rf"the (?:\w+ )?{_MAKER}(?: \w+){{0,10}}? (?:(?:is|was|are|were) not {_TOLD}(?:$|[,;]| (?:in|by)"
            rf" (?:\w+ ){{0,4}}?{_SOURCE})|(?:cannot|could not) be {_ADVERB}\w+(?:ed|n|wn)\b)",
            rf"[^,;:]{{0,200}} (?:cannot|can't) be {_ADVERB}\w+ (?:from|based on|with|using|in) "
            rf"(?:\w+ ){{0,4}}?{_SOURCE}",
        )
    )
)
_BARE_START = re.compile(
    r"unknown\W{1,4}(?:passages?|documents?|not|no|as|because|since|the|based|none|there|this|it|i|neither"
    r"|if (?:you|i|we) (?:do not|cannot|are not|am not))\b"
    r"|n/a[ .:(–—-]{1,4}(?:the|these|this|there|not|no|none|it|i|as|because|since|based)\b"
    rf"|none[ .:(,–—-]{{1,4}}{_SOURCES} {_NOT} {_ADVERB}{_TELL}"
)
_GUESSES = re.compile(
    r"\b(?:likely|probably|possibly|perhaps|maybe|may|might|could|(?:\w+ ){1,3}(?:thinks?|believes?|guess)"
    r"|it (?:is|was)|they (?:are|were)|best guess|(?:passages?|documents?|texts?|context|knowledge)"
    r"(?: \d{1,3})? (?:states?|says?|implies|suggests?|indicates?))\b"
)
"""How a value is given behind the word Unknown itself; other statements there answer nothing."""
_NO_SINGLE = re.compile(
    r"\bno (?:single|simple|one|definitive|clear|easy) (?:answer|cause|reason|explanation|definition|way)\b"
)
_NOT_WHY = re.compile(
    r"\bnot (?:explicitly|directly) (?:say|state|explain|mention) (?:why|how)\b(?! (?:many|much))"
)
_NOT_EXACTLY = re.compile(
    r"\b(?:exact|precise) (?:number|figure|amount|count|toll|size|cost|total)s?\b"
)
"""What a sentence lacks that the next ones may still tell about: a single cause, an exact number."""
_BESIDES = re.compile(
    r"(?:instead|the focus|both\b|you can\b|sorry|i apologi[sz]e|is there anything|(?:more|further) )"
)
"""How a sentence begins that passes over what was asked."""
_CAUSE = re.compile(r"\b(?:because|due to|since|caused|led to|result\w*|reasons?|after)\b")
_AMOUNT = re.compile(r"\d|\b(?:roughly|estimates?|estimated|dozens|hundreds|thousands)\b")
_CONTRAST = re.compile(r"\b(?:but|however|although|though|nevertheless|nonetheless|yet)\b,? *")
_STILL_NOTHING = re.compile(
    rf"(?:(?:it|they|(?:the|these|this) (?:\w+ ){{0,2}}?{_SOURCE}|passage \w+) (?:\w+ly )?(?:do|does"
    r"|only|just|merely|mentions?|discuss\w*|talks?|describes?|provides?|contains?|refers?"
    r"|(?:says?|states?) (?:nothing|only))\b"
    rf"|(?:they|(?:the|these|this) (?:\w+ ){{0,2}}?{_SOURCE}) (?:is|are) "
    r"(?:\w+ )?(?:about|on|related|unrelated|not)\b"
    r"|(?:no|not|neither|nothing)\b|there (?:is|are) (?:information|details|other|also)\b"
    r"|if you|please|feel free|i can|i would|i'd|let me"
    r"|there (?:is|are) (?:an? |some |several )?(?:[^.;]{0,60} )?(?:called|named|by that name)\b"
    r"|(?:in general|generally|typically)\b"
    r"|it (?:is|would be) (?:important|possible|worth|best|recommended)\b|(?:it|this|that) (?:may|might|could)\b"
    r"|[^.;]{1,160} (?:is|are|was|were) (?:\w+ )?(?:mentioned|listed)\b"
    r"|(?!(?:[^.;]* )?but )[^.;]{0,160}\b(?:is|are|was|were|do|does|did|has|have|had|could|would) not\b)"
)
_OF = re.compile(
    r"\bthe (?P<what>(?:\w+ ){0,3}?\w+) (?:of|that|who|which) (?P<whose>.+?)"
    r"(?= (?:is|are|was|were|has|had|does|did)\b|$)"
)
"""A thing asked for by what it belongs to: `the director of film Normal`."""
_ONE_OF_THEM = re.compile(
    r"(?:[^.,;]{0,80}\b)?(?:passage|document|knowledge) \d+\b|[^.,;]{0,40}\b(?:first|one) "
    r"(?:passage|document)"
)
"""A sentence about one passage says nothing of the others."""
_ANOTHER = re.compile(
    r"(?:according to |from |in |however,? )?(?:(?:passage|document|knowledge) \d+|(?:the )?"
    r"(?:second|third|other|next|last)(?: (?:one|passage|document))?)\b"
)
_VALUE = re.compile(
    r"\b(?:says?|states?|gives?|names?|tells?|shows?|implies|reports?|it (?:is|was))\b"
)
_DENIES = re.compile(
    r"(?:(?:i apologi[sz]e|(?:i am |i'm )?sorry|unfortunately),? (?:but )?)?(?:there (?:is|are|was"
    r"|were) no\b|(?:i am|i'm) not (?:aware|familiar|sure)\b|[^.;]{1,80} (?:is|are) not (?:an? )?real\b)"
)
"""A first sentence that denies what the question takes for granted."""
_ASKS_BACK = re.compile(
    r"\b(?:could|can|would) you (?:please )?(?:provide|clarify|give|specify)\b"
    r"|\bplease (?:provide|clarify|specify)\b|\bif you (?:can|could|have|meant)\b"
)
"""A request for a better question: no answer was given."""
_EXCUSE = re.compile(
    r"(?:i|we) (?:cannot|could not) (?:\w+ly )?(?:predict|browse|access|assist|discuss|help with"
    r"|make (?:any )?(?:judge?ments?|predictions?|opinions?))(?: [\w'-]+){2}(?P<rest>[^\d:;]*)\Z"
)
"""What a model says it can't do; whether it answers all the same, the next sentences tell."""
_PLEASANTRY = re.compile(
    r"(?:if you (?:have|need|want|would like)\b[^,]{0,80}, ?(?:please|feel free|let me|i can|i will)"
    r"|please (?:ask|consult|provide|let me|check|contact|feel free|try|specify|refer)|feel free"
    r"|let me know|i (?:can|could|would|will|am) (?:help|assist|recommend|suggest|be happy|be glad"
    r"|here to)|i (?:recommend|suggest|hope)|(?:it is|it would be) (?:best|better|recommended"
    r"|important|advisable) to (?:consult|check|look|ask|verify|refer|visit))\b\D*\Z"
)
_OF_ITSELF = re.compile(
    r"as an? (?:\w+ )?(?:ai|language model|assistant)\b[^.]{0,60}\bi(?: am|'m) (?:only |just )?"
    r"(?:committed|designed|programmed|trained|built|made|here)\b[^:]*\Z"
)
"""A first sentence in which a model speaks of itself; why it declines may be in the next one."""
_WEIGHTY = re.compile(
    r"^(?:so|therefore|thus|hence|consequently|overall|as such|in conclusion)\b"
    r"|\banswer\b|\bquestion\b(?! of\b)"
)
_LACKS = re.compile(r"\b(?:answered|unknown|determined?|enough|question)\b")
_IMPERSONAL = re.compile(
    r"(?:it|this|that|i|we|there|no|not|nothing|none|cannot|insufficient|unable|unknown)\b"
)
_OF_SOURCES = re.compile(_SOURCES)


def is_unknown(text: str, *, one_answer: bool = False) -> bool:
    """Return whether a model's reply means "I don't know".

    Where the reply names its conclusion ("So the answer is …") that decides; else a first
    sentence that declines, unless a long answer goes on where that lacks only an exact number or a
    single cause, or a last one that declines to answer the question; one that lacks
    something else ("… in 1872. The fate of her crew is unknown.") declines nothing, unless the reply
    was to give a single answer: what it lacks is then what was asked for. A hedged value
    ("It is not known for certain, but Paris") is an answer, and so is a bare "None": it may
    answer "how many" or "which", and the prompts ask for the word Unknown. A reply without a
    word or symbol is unknown. Markdown, quotes, punctuation at the ends and case don't matter.

    Args:
        text: A reply of any length; only 800 characters at either end are read.
        one_answer: Whether a name, a date or another short answer was asked for.
    """
    plain = _plain(text)
    if not plain:
        return True
    if _bare(plain):
        return True
    conclusion = _conclusion(plain)
    if conclusion:
        return _bare(conclusion) or _declines(conclusion)
    sentences = _sentences(plain)
    if not sentences or _begs_off(sentences):
        return True
    first, last = sentences[0], sentences[-1]
    if _bare(last):
        return True
    if _opens_declining(sentences):
        return not _tells_something(sentences, hedges=not one_answer)
    if _DENIES.match(first) and any(map(_ASKS_BACK.search, sentences[-2:])):
        return not _recovers(sentences[1:], first)
    elsewhere = not one_answer and _of_its_own(last, sentences)
    weighs = _WEIGHTY.search(last) or (_LACKS.search(last) and not elsewhere)
    return bool(weighs) and _declines(last)


def _of_its_own(last: str, sentences: list[str]) -> bool:
    """Does the last sentence lack something else than the others state: the crew's fate?"""
    core = _without_fillers(last, _REFUSALS)
    if _IMPERSONAL.match(core) or _OF_SOURCES.match(core):
        return False
    return not all(_OF_SOURCES.match(one) or _declines(one) for one in sentences[:-1])


def _opens_declining(sentences: list[str]) -> bool:
    """Does the first sentence decline, and none behind it give a value?"""
    first, *rest = sentences
    if not (_bare(first) or _declines(first)):
        return False
    guesses = not _bare(first) or any(map(_GUESSES.search, rest))
    return not (guesses and _recovers(rest, first))


def _tells_something(sentences: list[str], *, hedges: bool) -> bool:
    """Does a reply that begins with a refusal tell something all the same?

    Of another passage than the first sentence's; or, with `hedges`, of the thing itself where only
    an exact number or a single cause is said to be lacking.
    """
    first, *rest = sentences
    if _ONE_OF_THEM.match(first) and _another_says(rest):
        return True
    if not hedges or all(map(_tells_nothing, rest)):
        return False
    counts = _NOT_EXACTLY.search(first) and any(map(_AMOUNT.search, rest))
    causes = _NOT_WHY.search(first) and any(map(_CAUSE.search, rest))
    return bool(_NO_SINGLE.search(first) or counts or causes)


def _tells_nothing(sentence: str) -> bool:
    """Does a sentence behind a refusal speak only of the sources, decline, or say nothing?"""
    rest = _without_fillers(sentence, _STILL_NOTHING)
    return bool(
        _OF_SOURCES.match(rest)
        or _STILL_NOTHING.match(rest)
        or _PLEASANTRY.match(rest)
        or _BESIDES.match(rest)
        or _ASKS_BACK.search(rest)
        or _declines(sentence)
    )


def knows_nothing(text: str) -> bool:
    """Return whether a reply means "I don't know" and says nothing else that may be true."""
    sentences = _sentences(_plain(text))
    return is_unknown(text) and (len(sentences) < 2 or _says_nothing(sentences))


def _sentences(plain: str) -> list[str]:
    """Return the sentences and lines of a plain text, without padding."""
    return [one for piece in _STOP.split(plain) if (one := _trim(piece))]


def _begs_off(sentences: list[str]) -> bool:
    """Does a reply begin with what the model is or can't do, and say nothing else?"""
    first = sentences[0]
    return bool(_OF_ITSELF.match(first) or _excuses(first)) and _says_nothing(sentences)


def _says_nothing(sentences: list[str]) -> bool:
    """Do all sentences decline, excuse themselves or pass the time of day, one at least declines?"""
    said = [one[turn.end() if (turn := _CONTRAST.match(one)) else 0 :] for one in sentences]
    declined = [_bare(one) or _declines(one) or _excuses(one) for one in said]
    return any(declined) and all(
        no or _PLEASANTRY.match(one) or _OF_ITSELF.match(one) or _ASKS_BACK.match(one)
        for one, no in zip(said, declined, strict=True)
    )


def _without_fillers(sentence: str, until: re.Pattern[str]) -> str:
    """Return a sentence without its opening phrases, up to where `until` matches."""
    core = sentence
    while (filler := _FILLER.match(core)) and filler.end() < len(core) and not until.match(core):
        core = core[filler.end() :].lstrip(_PADDING)
    return core


def _excuses(sentence: str) -> bool:
    """Does a sentence say what the model can't do, behind its apologies?"""
    core = _without_fillers(sentence, _EXCUSE)
    found = _EXCUSE.match(core)
    return found is not None and not _recovers([found["rest"]], core, anywhere=True)


def _plain(text: str) -> str:
    """Return the two ends of `text`, lower-cased, without markup and a thinking block."""
    answer = without_thinking(text)
    if len(answer) > 2 * _EDGE:
        answer = f"{answer.lstrip()[:_EDGE]}\n{answer.rstrip()[-_EDGE:]}"
    lines = _MARKUP.sub(" ", _expanded(answer.casefold().replace("’", "'"))).splitlines()
    return _trim("\n".join(" ".join(line.split()) for line in lines))


def _expanded(text: str) -> str:
    """Return lower-cased text with its contractions written out."""

    def whole(found: re.Match[str]) -> str:
        if found["can"]:
            return "cannot"
        return f"{found['verb']} not" if found["verb"] else f"{found['subject']} is"

    return _CONTRACTED.sub(whole, text)


def _trim(text: str) -> str:
    """Return `text` without padding at its ends."""
    return text.strip(_PADDING)


def _bare(text: str) -> bool:
    """Is `text` nothing but a word for unknown, with or without a reason behind it?"""
    core = _trim(_FILLER.sub("", _trim(text), count=1)) if text else ""
    return core in _FOLDED or _trim(text) in _FOLDED or bool(_BARE_START.match(_trim(text)))


def _conclusion(plain: str) -> str:
    """Return the text after the last "the answer is", up to the sentence's end."""
    found = list(_CONCLUSION.finditer(plain))
    if not found:
        return ""
    rest = _trim(_STOP.split(plain[found[-1].end() :].strip(), maxsplit=1)[0])
    return "" if _FILLER.fullmatch(rest) else rest


def _declines(sentence: str) -> bool:
    """Does `sentence` decline to answer, and offer no value after a "but"?"""
    core = sentence
    while lead := _LEAD.match(core):
        core = core[lead.end() :]
    core = _without_fillers(core, _REFUSALS)
    if core.startswith(("while ", "although ", "though ", "even though ")):
        core = core.partition(",")[2].strip()
    found = _REFUSALS.match(core)
    if found is None or _recovers([core[found.end() :]], core, anywhere=True):
        return False
    rest = [one.strip() for one in core.split(";")[1:]]
    return not (_ONE_OF_THEM.match(core) and _another_says(rest))


def _recovers(sentences: list[str], refused: str, *, anywhere: bool = False) -> bool:
    """Does one of `sentences` turn round ("However, it is Paris") and give a value?

    Args:
        sentences: What follows a refusal.
        refused: The refusal.
        anywhere: Whether the turn may stand within a sentence.
    """
    for sentence in sentences:
        turn = _CONTRAST.search(sentence) if anywhere else _CONTRAST.match(sentence)
        if turn is None:
            continue
        rest = _trim(sentence[turn.end() :])
        if not rest or _STILL_NOTHING.match(rest) or _REFUSALS.match(rest):
            continue
        if not _of_another(refused, rest):
            return True
    return False


def _of_another(refused: str, said: str) -> bool:
    """Is what is said of another thing than was asked for: the director of another film?"""
    wanted, given = _OF.search(refused), _OF.match(said)
    if wanted is None or given is None or wanted["what"] != given["what"]:
        return False
    return wanted["whose"] != given["whose"]


def _another_says(sentences: list[str]) -> bool:
    """Does a sentence about another passage give what the first one lacks?"""
    return any(
        _ANOTHER.match(one) and _VALUE.search(one) and not _REFUSALS.match(one) for one in sentences
    )


_FOLDED = frozenset(_trim(_expanded(word)) for word in _WORDS.casefold().split("|"))
