# `ragweave serve` for a knowledge base in /kb:
#
#     docker build --tag ragweave .
#     docker run --rm --volume "$PWD/kb:/kb:ro" --publish 8000:8000 --env RAGWEAVE_API_KEYS --env OPENAI_API_KEY \
#         ragweave concat_pf --kb /kb --model openai:gpt-4o-mini
#
# RAGWEAVE_API_KEYS holds the keys that callers send. Other commands: --entrypoint ragweave.
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[offline,openai,serve,mcp]" \
    && useradd --create-home --uid 1000 ragweave
USER 1000
WORKDIR /home/ragweave
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["ragweave", "serve", "--host", "0.0.0.0"]
CMD ["--kb", "/kb"]
