"""The data sets that can be fetched by name: shapes, class counts, files and checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from taufpl._checks import did_you_mean

LIBSVM_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


@dataclass(frozen=True)
class TextFile:
    """One file as LIBSVM publishes it: its name once unpacked, and, in `packing`, what it ends with at the source.

    Checksums are of the form ``"sha256:..."`` or ``"md5:..."``, None if not known.
    """

    name: str
    n_rows: int
    text_checksum: str | None = None
    packed_checksum: str | None = None
    packing: str = ""

    @property
    def download_checksum(self) -> str | None:
        """Checksum of the bytes that the source sends."""
        return self.packed_checksum if self.packing else self.text_checksum


@dataclass(frozen=True)
class DatasetInfo:
    """A data set: its shape, its class counts, and the files that it is made of.

    Attributes
    ----------
    name : str
    about : str
        Description of rows and features, and of the positive class.
    n_positive, n_negative, n_features : int
        Counts that a loaded set must have. They also tell which class is positive where its label is the smaller one.
    files : tuple of TextFile
        Joined in this order. Empty for sets that the package contains.
    """

    name: str
    about: str
    n_positive: int
    n_negative: int
    n_features: int
    files: tuple[TextFile, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_positive + self.n_negative, self.n_features

    @property
    def n_train(self) -> int:
        """Rows of the first file; all rows if there is but one."""
        return self.files[0].n_rows if self.files else self.shape[0]

    @property
    def checked_by(self) -> str:
        """The checks that a download must pass."""
        known = all(file.text_checksum or file.packed_checksum for file in self.files)
        return "checksum, shape and class counts" if known else "shape and class counts alone"


def find_info(name: str) -> DatasetInfo:
    """Look a name up, or say which names there are."""
    if name in LIBSVM_DATASETS:
        return LIBSVM_DATASETS[name]
    raise ValueError(f"name must be one of {', '.join(sorted(_SETS))}, got {name!r}.{did_you_mean(str(name), _SETS)}")


def _info(name: str, counts: tuple[int, int, int], about: str, *files: TextFile) -> DatasetInfo:
    return DatasetInfo(name, about, *counts, files)


# The checksums of w8a, a9a and phishing were computed from the files themselves, those of the others were published by
# other projects that use them. Class counts of covtype, mushrooms and skin_nonskin are those of the originals at UCI.
_SETS = {
    info.name: info
    for info in (
        _info("heart", (120, 150, 13), "Statlog heart, 13 features scaled to [-1, 1]; positive: heart disease"),
        _info(
            "breast-cancer",
            (239, 444, 10),
            "Wisconsin breast cancer (original), sample number first, scaled to [-1, 1]; positive: malignant",
        ),
        _info("spambase", (1813, 2788, 57), "e-mails, raw frequencies of words and characters; positive: spam"),
        _info(
            "w8a",
            (1933, 62767, 300),
            "web pages, presence of 300 keywords; positive: label +1, pages of one category",
            TextFile("w8a", 49749, "sha256:6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2"),
            TextFile("w8a.t", 14951, "sha256:618929ecb01bebb841daec4cae4aa07b97832d29b08652452775598929547fde"),
        ),
        _info(
            "real-sim",
            (22238, 50071, 20958),
            "articles from discussion groups on real and simulated cars and aircraft, weighted words; "
            "positive: label +1",
            TextFile(
                "real-sim",
                72309,
                "sha256:0fd9b12b6dc60dab7885a7367b286a53aac5d92057dc1083ab13ade275120270",
                "sha256:7cd52374f55ce62e803ef33ca1c44689427c23d481eff64026f8ba9f53b8cc27",
                ".bz2",
            ),
        ),
        _info(
            "a9a",
            (11687, 37155, 123),
            "census records (UCI Adult) in binary features; positive: income above 50,000 dollars",
            TextFile("a9a", 32561, "sha256:f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
            TextFile("a9a.t", 16281, "sha256:1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
        ),
        _info(
            "phishing",
            (6157, 4898, 68),
            "web sites, properties in binary features; positive: label 1",
            TextFile("phishing", 11055, "sha256:0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"),
        ),
        _info(
            "ijcnn1",
            (13565, 128126, 22),
            "the IJCNN 2001 challenge, with its winner's features; positive: label +1",
            TextFile(
                "ijcnn1",
                49990,
                "sha256:16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f",
                "md5:c3e9162f8e38e0b6c0e02d313a59de2b",
                ".bz2",
            ),
            TextFile("ijcnn1.t", 91701, None, "md5:66433ab8089acee9e56dc61ac89a2fe2", ".bz2"),
        ),
        _info(
            "rcv1",
            (10491, 9751, 47236),
            "Reuters news, weighted words, the training part; positive: corporate, industrial and economic topics",
            TextFile("rcv1_train.binary", 20242, None, "md5:1aeda848408e621468c0fe6944d9382f", ".bz2"),
        ),
        _info(
            "cod-rna",
            (110384, 220768, 8),
            "pairs of RNA sequences, 8 features; positive: label +1, non-coding RNA",
            TextFile("cod-rna", 59535, "md5:cd14eab76f391e288e6e8e592ae658dd"),
            TextFile("cod-rna.t", 271617, "md5:b876c22c86a33ef262342b12d2718655"),
        ),
        _info(
            "covtype",
            (283301, 297711, 54),
            "patches of forest, cartographic features scaled to [0, 1]; positive: lodgepole pine",
            TextFile("covtype.libsvm.binary.scale", 581012, None, "md5:d95f45e15c284005c2c7a4c82e4be102", ".bz2"),
        ),
        _info(
            "mushrooms",
            (3916, 4208, 112),
            "mushrooms, properties in binary features; positive: poisonous",
            TextFile("mushrooms", 8124, "sha256:f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
        ),
        _info(
            "skin_nonskin",
            (50859, 194198, 3),
            "pixels of faces and of other images, blue, green and red; positive: skin",
            TextFile("skin_nonskin", 245057),
        ),
    )
}

LIBSVM_DATASETS: Mapping[str, DatasetInfo] = MappingProxyType(_SETS)
