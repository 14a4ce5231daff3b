# The images of Janus: docker build --target operator|gateway|worker-cpu|worker-cuda . , or scripts/images, which
# needs neither a daemon nor a registry. Each holds one program and the libraries that it loads, and no shell; it
# runs as nobody's user with a root that it never writes to.

# Any Debian 12.
ARG BASE=docker.io/library/debian:12-slim
# built: compiled here. host: brought along, each with its libraries (scripts/images.d/root), for tests.
ARG PROGRAMS=built
# built-cuda: the worker with CUDA is compiled here, for these architectures. host: as above.
ARG CUDA_PROGRAMS=built-cuda
ARG CUDA_ARCHITECTURES=90a

FROM ${BASE} AS tools
WORKDIR /src
COPY scripts scripts
RUN scripts/deps build

FROM tools AS built
COPY . .
RUN cmake --preset release && ninja -C build/release janus-operator janus-gateway janus-worker
RUN for program in janus-operator janus-gateway janus-worker; do \
      scripts/images.d/root build/release/bin/$program /roots/$program || exit 1; \
    done && cp -r examples/demo-model /roots/

# A UCX to take in place of Debian's, which knows no CUDA: --build-context ucx=FOLDER, where it was installed.
FROM scratch AS ucx

FROM tools AS built-cuda
ARG CUDA_ARCHITECTURES
# pip has authorities of its own; those of the base may be more.
RUN if [ -e /etc/ssl/certs/ca-certificates.crt ]; then export PIP_CERT=/etc/ssl/certs/ca-certificates.crt; fi; \
    scripts/deps cuda
COPY --from=ucx / /opt/ucx/
COPY . .
RUN cmake --preset release-cuda "-DJANUS_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}" -DCMAKE_PREFIX_PATH=/opt/ucx && \
    ninja -C build/release-cuda janus-worker
RUN scripts/images.d/root-cuda build/release-cuda/bin/janus-worker /roots/janus-worker-cuda && \
    cp -r examples/demo-model /roots/

FROM scratch AS host
COPY roots /roots/

FROM ${PROGRAMS} AS programs

FROM ${CUDA_PROGRAMS} AS programs-cuda

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

FROM scratch AS worker-cuda
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="janus-worker" \
      org.opencontainers.image.description="One attention or expert instance of a Janus service, on an NVIDIA GPU" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# What of the driver is put into the container. Which GPUs are, who gives the pod one says (NVIDIA_VISIBLE_DEVICES, or CDI);
# nor may CUDA_VERSION stand here, by which the runtime would take all of them.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=programs-cuda /roots/janus-worker-cuda /
COPY --from=programs-cuda /roots/demo-model/*.json /roots/demo-model/README.md /roots/demo-model/model.safetensors /models/demo/
USER 65532:65532
ENTRYPOINT ["/usr/bin/janus-worker"]
