"""Downloads, against a server on this machine that misbehaves on demand."""

import bz2
import hashlib
import io
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from taufpl.datasets import DatasetInfo, fetch_libsvm
from taufpl.exceptions import DatasetError
from taufpl.paper._libsvm import TextFile, download

CONTENT = bytes(np.random.default_rng(0).integers(0, 256, size=300_000, dtype=np.uint8))
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """Answers as the next entry of the server's plan says, and well once there is none left."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        content = server.files.get(self.path.removeprefix("/sets/"))
        wanted = self.headers.get("Range")
        server.seen.append((self.path, wanted))
        manner = server.plan.pop(0) if server.plan else "well"
        if manner in (404, 503) or content is None:
            return self.send_error(manner if manner in (404, 503) else 404)
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and manner != "ranges ignored" else 0
        if begin >= len(content) and begin:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "8")
            self.end_headers()
            return self.wfile.write(b"no more.")
        if manner == "another part":
            begin -= 1
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        if manner == "wait":
            server.release.wait(10)
        share = 0.5 if manner == "cut" else 1.0
        self.wfile.write(content[begin : begin + int(share * (len(content) - begin))])
        self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.plan, server.seen = {"file.bz2": CONTENT}, [], []
    server.release = threading.Event()
    server.url = f"http://127.0.0.1:{server.server_address[1]}/sets/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    # Pauses before a server in trouble is asked again.
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(seconds / 250))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "xdg"))
    monkeypatch.delenv("TAUFPL_DATA", raising=False)
    # Requests to this machine must not go through a proxy.
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def get(server, path, checksum=CHECKSUM):
    download(f"{server.url}file.bz2", path, checksum)


def ranges(server):
    return [wanted for _, wanted in server.seen]


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


class TestDownload:
    def test_all_at_once(self, server, tmp_path):
        path = tmp_path / "new" / "folder" / "file.bz2"
        get(server, path)
        assert path.read_bytes() == CONTENT
        assert ranges(server) == [None]
        assert names(path.parent) == ["file.bz2"]

    def test_what_is_there_is_not_asked_for(self, server, tmp_path):
        (tmp_path / "file.bz2").write_bytes(b"mine")
        get(server, tmp_path / "file.bz2")
        assert server.seen == []

    def test_a_cut_connection_is_resumed(self, server, tmp_path):
        server.plan = ["cut", "cut", "cut"]
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert ranges(server) == [None, "bytes=150000-", "bytes=225000-", "bytes=262500-"]

    def test_a_later_call_goes_on(self, server, tmp_path):
        (tmp_path / "file.bz2.part").write_bytes(CONTENT[:1234])
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert ranges(server) == ["bytes=1234-"]

    def test_a_server_without_ranges_starts_over(self, server, tmp_path):
        server.plan = ["cut", "ranges ignored"]
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert ranges(server) == [None, "bytes=150000-"]

    def test_another_part_than_asked_for_is_thrown_away(self, server, tmp_path):
        server.plan = ["cut", "another part"]
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert ranges(server) == [None, "bytes=150000-", None]

    @pytest.mark.parametrize("more", [b"", b"too long"])
    def test_a_part_that_is_the_whole_or_more(self, server, tmp_path, more):
        (tmp_path / "file.bz2.part").write_bytes(CONTENT + more)
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert ranges(server) == [f"bytes={len(CONTENT + more)}-", None]

    def test_the_beginning_of_another_version(self, server, tmp_path):
        (tmp_path / "file.bz2.part").write_bytes(b"x" * 1000)
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert ranges(server) == ["bytes=1000-", None]

    @pytest.mark.parametrize("checksum", ["sha256:" + 64 * "0", "md5:" + 32 * "0"])
    def test_a_wrong_checksum_leaves_nothing(self, server, tmp_path, checksum):
        kind = checksum.partition(":")[0]
        with pytest.raises(DatasetError, match=rf"checksum {kind}:[0-9a-f]+, but it should be {checksum}"):
            get(server, tmp_path / "file.bz2", checksum)
        assert names(tmp_path) == []

    def test_md5_and_none(self, server, tmp_path):
        get(server, tmp_path / "a", f"md5:{hashlib.md5(CONTENT).hexdigest()}")
        get(server, tmp_path / "b", None)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == CONTENT

    def test_an_empty_file(self, server, tmp_path):
        server.files["file.bz2"] = b""
        with pytest.raises(DatasetError, match="but it should be"):
            get(server, tmp_path / "file.bz2")
        assert names(tmp_path) == []

    def test_a_server_in_trouble_is_asked_again(self, server, tmp_path):
        server.plan = [503, 503, "cut", 503]
        get(server, tmp_path / "file.bz2")
        assert (tmp_path / "file.bz2").read_bytes() == CONTENT
        assert len(server.seen) == 5

    def test_a_server_in_trouble_for_long(self, server, tmp_path):
        server.plan = ["cut"] + [503] * 10
        with pytest.raises(DatasetError, match=r"file\.bz2 could not be read: the server answered 503"):
            get(server, tmp_path / "file.bz2")
        assert 2 < len(server.seen) < 10
        # What has arrived stays, for another day.
        assert names(tmp_path) == ["file.bz2.part"]

    def test_a_missing_file_is_asked_for_once(self, server, tmp_path):
        server.plan = [404]
        with pytest.raises(DatasetError, match="the server answered 404"):
            get(server, tmp_path / "file.bz2")
        assert len(server.seen) == 1
        assert names(tmp_path) == []

    def test_nobody_listens(self, tmp_path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/file"
            with pytest.raises(DatasetError, match=rf"{url} could not be read: .*refused"):
                download(url, tmp_path / "file", None)

    def test_no_address(self, tmp_path):
        with pytest.raises(DatasetError, match="nonsense is no address"):
            download("nonsense", tmp_path / "file", None)

    def test_no_place_to_write(self, server, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(DatasetError, match="could not be written"):
            get(server, tmp_path / "file" / "file.bz2")

    def test_progress_is_for_terminals(self, server, tmp_path, monkeypatch, capsys):
        get(server, tmp_path / "silent")
        assert capsys.readouterr() == ("", "")
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stderr", terminal)
        get(server, tmp_path / "fast")
        assert terminal.getvalue() == ""
        clock = iter(range(1000))
        monkeypatch.setattr(time, "monotonic", lambda: next(clock))
        get(server, tmp_path / "slow")
        assert terminal.getvalue().startswith("\rslow: 0.")
        assert terminal.getvalue().endswith("0.3 of 0.3 MB (100%)\n")
        download(f"{server.url}file.bz2", tmp_path / "unwanted", None, progress=False)
        assert "unwanted" not in terminal.getvalue()


TRAIN, TEST = b"+1 1:0.5 3:2\n-1 2:1e-3\n", b"-1 3:1\n"
PACKED = bz2.compress(TEST)
PACKED_CHECKSUM = f"md5:{hashlib.md5(PACKED).hexdigest()}"


def tiny(test_checksum=PACKED_CHECKSUM):
    train = TextFile("tiny", 2, text_checksum=f"sha256:{hashlib.sha256(TRAIN).hexdigest()}")
    return DatasetInfo("tiny", "a set for tests", 1, 2, 3, (train, TextFile("tiny.t", 1, None, test_checksum, ".bz2")))


@pytest.fixture
def sets(server, offer):
    offer(tiny())
    server.files = {"tiny": TRAIN, "tiny.t.bz2": PACKED}
    return server


class TestFetch:
    def test_downloaded_to_data_home(self, sets, tmp_path):
        bunch = fetch_libsvm("tiny", data_home=tmp_path / "data", base_url=sets.url)
        assert bunch.data.toarray().tolist() == [[0.5, 0, 2], [0, 1e-3, 0], [0, 0, 1]]
        assert bunch.target.tolist() == [1, 0, 0]
        assert bunch.n_train == 2
        assert [path for path, _ in sets.seen] == ["/sets/tiny", "/sets/tiny.t.bz2"]
        assert names(tmp_path / "data") == ["tiny", "tiny.npz", "tiny.t.bz2"]
        fetch_libsvm("tiny", data_home=tmp_path / "data", base_url=sets.url)
        assert len(sets.seen) == 2

    def test_downloaded_to_the_cache(self, sets, tmp_path, monkeypatch):
        (tmp_path / "shared").mkdir()
        monkeypatch.setenv("TAUFPL_DATA", str(tmp_path / "shared"))
        fetch_libsvm("tiny", base_url=sets.url.rstrip("/"))
        assert names(tmp_path / "shared") == []
        assert names(tmp_path / "xdg" / "taufpl") == ["tiny", "tiny.npz", "tiny.t.bz2"]

    def test_only_what_is_missing(self, sets, tmp_path):
        (tmp_path / "tiny.t").write_bytes(TEST)
        fetch_libsvm("tiny", data_home=tmp_path, base_url=sets.url)
        assert [path for path, _ in sets.seen] == ["/sets/tiny"]

    def test_failures_say_what_to_do(self, sets, tmp_path):
        del sets.files["tiny.t.bz2"]
        with pytest.raises(DatasetError) as caught:
            fetch_libsvm("tiny", data_home=tmp_path / "data", base_url=sets.url)
        message = str(caught.value)
        assert f"{sets.url}tiny.t.bz2 could not be read: the server answered 404" in message
        assert "put tiny and tiny.t from" in message
        assert str(tmp_path / "data") in message
        assert names(tmp_path / "data") == ["tiny"]

    def test_a_portal_instead_of_the_file(self, sets, tmp_path, offer):
        offer(tiny(test_checksum=None))
        sets.files["tiny.t.bz2"] = b"<html>Sign in</html>"
        with pytest.raises(DatasetError, match="no complete file"):
            fetch_libsvm("tiny", data_home=tmp_path, base_url=sets.url)
        # Nothing vouches for it, so that it goes; what has a checksum stays.
        assert names(tmp_path) == ["tiny"]

    @pytest.mark.slow
    def test_two_processes_at_once(self, sets, tmp_path):
        code = (
            "import gc, sys; sys.path.insert(0, sys.argv[1])\n"
            "from taufpl.datasets import LIBSVM_DATASETS, fetch_libsvm\n"
            "from test_download import tiny\n"
            "gc.get_referents(LIBSVM_DATASETS)[0]['tiny'] = tiny()\n"
            "print('ready', flush=True)\n"
            "X, y = fetch_libsvm('tiny', data_home=sys.argv[2], base_url=sys.argv[3], return_X_y=True)\n"
            "print(X.sum(), y.sum())\n"
        )
        # Whoever asks first is kept waiting until the other one wants the file as well.
        sets.plan = ["wait"]
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "data"), sets.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "ready\n"
            timer = threading.Timer(0.3, sets.release.set)
            timer.start()
            X, y = fetch_libsvm("tiny", data_home=tmp_path / "data", base_url=sets.url, return_X_y=True)
            timer.join()
            assert other.communicate(timeout=30)[0] == "3.501 1\n"
        assert (X.sum(), y.sum()) == (3.501, 1)
        assert sorted(path for path, _ in sets.seen) == ["/sets/tiny", "/sets/tiny.t.bz2"]
        assert names(tmp_path / "data") == ["tiny", "tiny.npz", "tiny.t.bz2"]
