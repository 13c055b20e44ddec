# The demo in one step:  docker build -t taufpl . && docker run --rm -v "$PWD/demo:/home/user/taufpl/demo" taufpl
FROM python:3.13-slim

# The compiled loops need a C compiler; a wheel would not.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev make \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home user
USER user
WORKDIR /home/user/taufpl
COPY --chown=user . .

# Installs what the demo needs, and shows that it runs: an image that cannot is not made.
RUN make demo

CMD ["make", "demo"]
