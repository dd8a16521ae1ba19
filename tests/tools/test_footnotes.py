"""Reports of untrusted answers and passages."""

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from markdown_it import MarkdownIt

from ragweave import build_graph
from ragweave.tools.footnotes import html_report, markdown_report

LIVE = (
    "<img src=x onerror=alert(1)> [a](javascript:alert(1)) ![i](http://example.org/p.png) \\\\[b](javascript:alert(2)) "
    "<http://example.org> [c][d] &lt;"
)


def test_a_report_holds_no_links_pictures_or_html_of_answers_and_passages():
    passage = Document(f"Paris is the *capital* {LIVE}.", id="p", metadata={"title": f"T {LIVE}", "source": LIVE})
    answer = f"## Paris\n\nParis is the *capital* {LIVE}.\n\n[d]: javascript:alert(3)\n"
    graph = build_graph("concat", model=FakeListChatModel(responses=[answer] * 3), citations=True, answer_type="long")
    out = graph.invoke({"question": "What is the capital?", "passages": [passage]})
    report = markdown_report(out | {"answer": answer, "citations": []})
    quoted = markdown_report(out)
    assert "1. “" in quoted
    for text in (report, quoted):
        tokens = [
            token
            for block in MarkdownIt("gfm-like", {"linkify": False}).parse(text)
            for token in block.children or [block]
        ]
        kinds = {token.type for token in tokens}
        assert kinds.isdisjoint({"link_open", "image", "html_inline", "html_block"})
        assert "javascript:" not in text
        assert "<img src=x onerror=alert(1)>" in "".join(token.content for token in tokens)
    assert "<em>capital</em>" in MarkdownIt().render(report)
    assert "<em>capital</em>" not in MarkdownIt().render(quoted.partition("## Quotes")[2])
    assert "<img" not in html_report(out)
