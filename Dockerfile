# The e2e group over HTTP with a Chromium, for Cloud Run or wherever else containers run.
# It refuses to start until OAUTH_* and PILOTHOUSE_PUBLIC_URL are set: docs/guides/cloud-run.md.

FROM python:3.13.9-slim-trixie AS build
COPY requirements-uv.lock /build/
# The same as in scripts/setup. All else is installed by it, and by hash too.
RUN pip install --no-cache-dir --only-binary :all: --require-hashes \
        --requirement /build/requirements-uv.lock
ENV VIRTUAL_ENV=/opt/pilothouse \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /build
COPY pyproject.toml requirements.lock ./
# As constraints the lock gives versions and hashes, but not the packages that only tests need.
RUN uv venv "$VIRTUAL_ENV" \
    && uv pip install --require-hashes --requirement pyproject.toml --constraints requirements.lock
COPY README.md LICENSE ./
COPY src ./src
RUN uv pip install --no-deps --build-constraints requirements.lock .

FROM python:3.13.9-slim-trixie
# No versions: Debian keeps only the newest of each package, and a browser should be that.
# Chromium leaves orphans behind when it crashes: tini collects them as process 1.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        chromium \
        fonts-liberation \
        fonts-noto-cjk \
        fonts-noto-color-emoji \
        tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home pilothouse \
    && install --directory --mode 0700 --owner pilothouse /var/lib/pilothouse \
    && install --directory --owner pilothouse /srv/app
# Chromium's own sandbox is made of namespaces, which many hosts give to no container; without them
# it would not start. Debian's launcher reads this file each time.
# hadolint ignore=SC2016
RUN printf '%s\n' 'unshare --user --net --pid --fork true 2>/dev/null \' \
    '    || export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-sandbox"' > /etc/chromium.d/container
COPY --from=build /opt/pilothouse /opt/pilothouse
ENV PATH=/opt/pilothouse/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PILOTHOUSE_BROWSER=/usr/bin/chromium \
    PILOTHOUSE_ENV=production \
    PILOTHOUSE_HOME=/var/lib/pilothouse \
    PILOTHOUSE_HTTP_HOST=0.0.0.0 \
    TRANSPORT_MODE=http \
    PORT=8080
USER 10001
WORKDIR /srv/app
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as web; web.urlopen('http://127.0.0.1:' + os.environ['PORT'] + '/health', timeout=4)"]
ENTRYPOINT ["tini", "--"]
CMD ["pilothouse", "e2e"]
