"""How a reply declines to answer, in seven languages: whole replies, and what a refusal's sentence holds.

English was written with replies of Llama 2, Llama 3.1 and small models (`benchmarks/reader.py`); the others with the
refusals that are in `tests/recorded/refusals_by_language.json`. What a few patterns miss is taken for an answer.
"""

import re

WORDS = re.compile(
    r"n/a|null|not applicable|unspecified|undetermined|unsure|(?:i'm )?not sure|idk|dunno"
    r"|unbekannt|keine ahnung|inconnu|desconocido|sconosciuto|desconhecido|onbekend|неизвестно|不明|未知|不知道|わからない"
    r"|알 수 없음|未提及|无法确定"
)
"""Whole replies that decline, in lower case."""

_SOURCE = r"(?:passages?|contexts?|texts?|documents?|articles?|information)"
_ENGLISH = (
    r"\b(?:i|we)(?:(?:'m|'re| \w+) not| \w+n't| cannot)\b"
    r"|\b(?:cannot|can't|could not|couldn't) (?:be )?(?:determined?|answer(?:ed)?|inferred|found|tell)\b"
    r"|\b(?:not|never|nowhere|\w+n't) (?:\w+ly )?(?:mentioned|stated|specified|given|provided|discussed|named|available"
    r"|found|clear|known|answered|answerable|possible to)\b"
    rf"|\bnot in the (?:\w+ )?{_SOURCE}|\b(?:does not|doesn't|do not|don't) say\b"
    r"|\bthere \w+ no (?:such\b|(?:\w+ ){1,3}(?:named|titled|called)\b)"
    r"|\b(?:unknown|unclear|unanswerable|unable to|insufficient|not enough|nobody knows|no one knows|impossible to)\b"
    r"|\b(?:no|nothing|none|neither|any) (?:\w+ ){0,4}?(?:information|mention\w*|answers?|details?|indication|record"
    r"|of th\w+|passages?|idea|clue|data|said|says?|given|provided)\b"
    rf"|\b{_SOURCE}\b[^.;]{{0,80}}?(?:n't|\b(?:not|lacks?|fails? to|never|nothing|silent))\b"
)
_GERMAN = (
    r"\bantwort\b[^.;]{0,40}? nicht\b|\btext hat (?:nichts|keine?)\b|\bnicht (?:im|in \w+) (?:text|abschnitt|dokument|kontext)"
    r"|\b(?:nicht|nie|nirgends) (?:\w+ )?(?:erwähnt|genannt|angegeben|bekannt|enthalten|beantwort|bestimm|klar|ersichtlich)"
    r"|\bich (?:kann|habe|kenne|finde)\b[^.;]{0,80}?\b(?:nicht|keine?[nr]?)\b|\bweiss (?:\w+ ){0,2}nicht\b"
    r"|\b(?:unbekannt|unklar)\b|\b(?:steht|stehen|findet sich) nicht (?:im|in)\b"
    r"|\bkeine?[nr]? (?:\w+ ){0,2}(?:information|angabe|antwort|hinweis|daten|erwähnung|auskunft|dokument|quelle|passage)"
    r"|\b(?:text|passage|abschnitt|dokument|kontext)\w*[^.;]{0,60}? (?:erwähn|nenn|enthäl|sag|beantwort)\w+"
    r"[^.;]{0,60}? (?:nicht|nichts|keine?[nrs]?)\b"
)
_FRENCH_SOURCE = r"(?:textes?|passages?|documents?|extraits?|contextes?|articles?|auteurs?)"
_FRENCH = (
    r"\b(?:je|nous) (?:ne |n')(?:\w+ ){1,3}?pas\b|\bje suis désolée?\b|\b(?:est|sont|reste)(?: \w+)? (?:inconnu|indéterminé|non mentionn)"
    r"|\b(?:n'\w+|ne \w+) pas (?:été )?(?:mentionn|indiqu|précis|donn|fourni|conn[au]|clair|dit|disponible|possible)"
    rf"|\bn'est pas dans \w+ {_FRENCH_SOURCE}\b"
    r"|\b(?:aucune? |pas d(?:e |'|es ))(?:\w+ ){0,2}?(?:information|mention|réponse|indication|détail|donnée|précision|référence|document)"
    rf"|\b{_FRENCH_SOURCE}\b[^.;]{{0,40}}?\b(?:n'|ne )(?:\w+ )?\w+ (?:pas|rien|aucun)"
)
_SPANISH = (
    r"\bno (?:lo |la )?(?:sé|sabemos|puedo|tengo|conozco|encuentro|dispongo)\b|\blo siento\b|\bdesconozco\b"
    r"|\b(?:es|son|sigue)(?: \w+)? desconocid"
    r"|\bno (?:se |está |es |hay |ha sido )(?:\w+ ){0,2}?(?:mencion|indic|especific|proporcion|sabe|dice|conoc|clar|posible"
    r"|informaci|datos|evidencia|respuesta|detalle|referencia)|\bning[uú]na? (?:informaci|mención|dato|referencia|respuesta)"
    r"|\bno (?:aparece|figura) en\b"
    r"|\b(?:texto|pasaje|documento|fragmento|contexto|artículo|información)s?\b[^.;]{0,40}?\bno (?:se |lo |la )?"
    r"(?:menciona|dice|contiene|incluye|indica|especifica|proporciona|responde)"
)
_CHINESE = (
    r"不知道|不清楚|不详|不得而知|无法(?:确定|回答|得知|判断|提供|知道|确认|找到)|不在[^。，]{0,8}(?:文章|段落|文本|资料|数据)"
    r"|(?:没有?|未|并未)(?:有|被)?(?:在[^。，]{1,12}中)?(?:任何|明确|具体|直接)*(?:提到|提及|说明|说\Z|给出|提供|涉及|找到|包含|记载|描述|指出"
    r"|信息|答案|(?:相关|有关|关于)[^。，]{0,20}(?:信息|内容|资料|记载|描述|说明|答案))"
)
_JAPANESE = (
    r"不明(?=です|だ|であ|[，,]|\Z)|(?:わか|分か|判)(?:り(?:ません|かね)|らない)|知り(?:ません|ませんでした)|見つか(?:りません|らない)"
    r"|(?:情報|記載|記述|言及|説明|答え|回答|内容)[^。、]{0,12}(?:ません|ない|無い|なし)"
    r"|(?:書かれて|述べられて|示されて|触れられて|含まれて)い(?:ません|ない)|含まれません|未記載"
    r"|(?:お答え|回答|特定|提供|判断|確認)(?:する|すること|ること)?[はがもを]?でき(?:ません|ない)"
)
_KOREAN = (
    r"알 수 ?없|모르(?:겠|지)|모릅니다|모른다|몰라|나와 ?있지 않|(?:언급|포함|제공|명시|기재)(?:되|하)(?:지|어 있지)"
    r"|(?:정보|언급|답변?|내용|기록|설명)[이가은는도을를]? ?(?:\w+ ){0,2}?(?:없|않|못)"
    r"|알려 ?주지 않|(?:찾을|답할|답변할|확인할|제공할|대답할) 수 없"
)
DECLINES = re.compile("|".join((_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _CHINESE, _JAPANESE, _KOREAN)))
"""How a sentence declines, in case-folded text."""

KNOWING = re.compile(
    r"\b(?:know\w*|unknown|unclear|clear|sure|idea|clue|tell|says?|said|find|determin\w+|answer\w*|mention\w*|stated"
    r"|specified|understand|remember)\b"
    r"|(?:\A|\b(?:no|any|enough|insufficient|the|this|that) )(?:information|data|details?)\b"
    r"|\b(?:weiss|(?:un)?(?:bekannt|klar)|erwähnt|antwort|sais|sait|(?:in)?connue?s?|réponse|sé|sabe\w*|(?:des)?conoc\w+"
    r"|respuesta)\b|知|清楚|明|详|确定|回答|答|提到|提及|信息|わか|分か|判|情報|記載|알|모르|모른|몰라|정보|언급"
)
"""What a refusal speaks of, in case-folded text: that something is not known, unlike a rule or a fact that is negated."""
