# The images of Janus: docker build --target operator|gateway|worker-cpu . , or scripts/images, which needs
# neither a daemon nor a registry. Each holds one program and the libraries that it loads, and no shell; it
# runs as nobody's user with a root that it never writes to.

# Any Debian 12.
ARG BASE=docker.io/library/debian:12-slim
# built: compiled here. host: brought along, each with its libraries (scripts/images.d/root), for tests.
ARG PROGRAMS=built

FROM ${BASE} AS built
WORKDIR /src
COPY scripts scripts
RUN scripts/deps build
COPY . .
RUN cmake --preset release && ninja -C build/release janus-operator janus-gateway janus-worker
RUN for program in janus-operator janus-gateway janus-worker; do \
      scripts/images.d/root build/release/bin/$program /roots/$program || exit 1; \
    done && cp -r examples/demo-model /roots/

FROM scratch AS host
COPY roots /roots/

FROM ${PROGRAMS} AS programs

FROM scratch AS operator
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="janus-operator" \
      org.opencontainers.image.description="Keeps what MoEServices ask for" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=programs /roots/janus-operator /
USER 65532:65532
ENTRYPOINT ["/usr/bin/janus-operator"]

FROM scratch AS gateway
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="janus-gateway" \
      org.opencontainers.image.description="The OpenAI-compatible endpoint of a Janus service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=programs /roots/janus-gateway /
COPY --from=programs /roots/demo-model/*.json /models/demo/
USER 65532:65532
ENTRYPOINT ["/usr/bin/janus-gateway"]

FROM scratch AS worker-cpu
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="janus-worker" \
      org.opencontainers.image.description="One attention or expert instance of a Janus service, on CPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=programs /roots/janus-worker /
COPY --from=programs /roots/demo-model/*.json /roots/demo-model/README.md /roots/demo-model/model.safetensors /models/demo/
USER 65532:65532
ENTRYPOINT ["/usr/bin/janus-worker"]
