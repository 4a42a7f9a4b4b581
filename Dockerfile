# Two images: the default one holds worker and projector and nothing else, for
# HTTP handlers. Jobs that are commands need an image of yours with the commands
# and a copy of /worker. The other, --target cli, holds the jobtrail command.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /out/ ./cmd/worker ./cmd/projector ./cmd/jobtrail

# jobtrail loads shared libraries (for jobtrail up) and so needs a C library.
FROM debian:13-slim AS cli
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/jobtrail /usr/local/bin/jobtrail
USER 65532:65532
ENTRYPOINT ["jobtrail"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/worker /out/projector /
USER 65532:65532
CMD ["/worker"]
