# eddyline serve in a container. docs/operations.md, "In a container", says how it is run.
#
#   docker build -t eddyline .
#   docker run -d --name eddyline -p 127.0.0.1:8321:8321 -v eddyline-data:/data eddyline
#   docker exec eddyline eddyline token add --role admin --home /data/home
#
# With Spark (brings Java along):  docker build --build-arg EXTRAS=server,kafka,avro,spark -t eddyline .

ARG PYTHON=3.13-slim

# --- build: the wheel and everything it needs, in an environment of its own ----------------------------------------------
FROM python:${PYTHON} AS build
ARG EXTRAS=server,kafka,avro
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/eddyline \
 && /opt/eddyline/bin/pip install --constraint constraints.txt ".[${EXTRAS}]" \
 && /opt/eddyline/bin/pip uninstall --yes pip

# --- run: Python, that environment, a user without rights, and nothing to build with -------------------------------------
FROM python:${PYTHON} AS run
RUN useradd --system --uid 10001 --create-home --shell /usr/sbin/nologin eddyline \
 && install -d -o eddyline -g eddyline /data
COPY --from=build /opt/eddyline /opt/eddyline
# NUMBA_CACHE_DIR: the inner loops are compiled once for a machine; on the volume they outlive the container.
ENV PATH=/opt/eddyline/bin:$PATH PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/data/.kernels
USER eddyline
WORKDIR /data
VOLUME /data
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/health', timeout=4)"]
ENTRYPOINT ["eddyline", "serve"]
# A container's loopback is reached by nobody outside, so it listens on all addresses. Everything but /health, /ready and the
# page itself then needs a token, metrics included; publish the port on loopback, or put a proxy with TLS before it.
CMD ["--host", "0.0.0.0", "--port", "8321", "--home", "/data/home", "--log-format", "json"]
