# An image with the program parley only: a static binary, root certificates, and a user without privileges.
#
#   docker build -t parley .
#   docker run --read-only --cap-drop ALL -p 127.0.0.1:7777:7777 -v "$PWD/mcp.json:/etc/parley/mcp.json:ro" parley
#
# docs/program/deploy.md describes the image, and how to add the programs of servers to it.

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make build

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/.out/parley /usr/local/bin/parley
USER 65532:65532
EXPOSE 7777
# Docker sends SIGTERM, and kills the container after 10 seconds by default.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=6s --start-period=30s CMD ["/usr/local/bin/parley", "ready", "127.0.0.1:7778"]
ENTRYPOINT ["/usr/local/bin/parley"]
CMD ["up", "--config", "/etc/parley/mcp.json", "--addr", "0.0.0.0:7777", "--admin", "127.0.0.1:7778", "--log", "json"]
