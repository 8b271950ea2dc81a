# venue as a container:
#
#     docker build -t venue:0.1.0 .
#     docker run --rm -it venue:0.1.0 demo
#     docker run --rm --network host venue:0.1.0                 # on loopback, with the public example accounts
#     docker run --rm -v ./venue.toml:/etc/venue/venue.toml:ro -p 127.0.0.1:26400:26400 … venue:0.1.0 serve -c /etc/venue/venue.toml
#
# A whole exchange with its market data, clients, Prometheus and Grafana is in deploy/compose.yaml.

ARG PYTHON=python:3.11-slim-bookworm

# Machine code is made at build, for any CPU of the architecture, and found again by every start (Numba's cache goes by
# the CPU's name). That costs nothing that can be measured: the workload of `venue bench match`, best of 3 × 12 runs on a
# Rocket Lake, in million messages a second: 26.1 with generic, 24.9 with x86-64-v2, 26.6 with x86-64-v3, 24.2 with the
# CPU's own name; runs of the same code differ by more. Integers and pointers have no use for wide vectors.
# With another NUMBA_CPU_NAME a start compiles anew.

# --- build: dependencies, then venue, then the kernels ------------------------------------------------------------
FROM ${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    VENUE_CACHE_DIR=/opt/venue/cache \
    NUMBA_CPU_NAME=generic
WORKDIR /src
RUN python -m venv /opt/venue
COPY deploy/requirements.txt ./
RUN /opt/venue/bin/pip install --no-deps --requirement requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
COPY clients clients
RUN python -m pip wheel --no-deps --wheel-dir /dist . \
 && /opt/venue/bin/pip install --no-deps /dist/venue-*.whl \
 && /opt/venue/bin/pip check
RUN /opt/venue/bin/venue warm-up

# --- run ----------------------------------------------------------------------------------------------------------
FROM ${PYTHON}
LABEL org.opencontainers.image.title="venue" \
      org.opencontainers.image.description="A stock exchange in a box: OUCH 5.0 orders and replayed ITCH 5.0 days in one price-time book" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin venue
COPY --from=build /opt/venue /opt/venue
ENV PATH=/opt/venue/bin:$PATH \
    VENUE_CACHE_DIR=/opt/venue/cache \
    NUMBA_CPU_NAME=generic

# By number, so that Kubernetes can see that it is not root. Nothing in the image belongs to this user: kernels are
# copied to /tmp when it starts (40 MB), counters lie in /dev/shm; all else may be read-only.
USER 10001:10001

# orders (TCP), feed (UDP), page and metrics (TCP)
EXPOSE 26400/tcp 26477/udp 26480/tcp
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:26480/healthz', timeout=4)"]
ENTRYPOINT ["venue"]
CMD ["serve"]
