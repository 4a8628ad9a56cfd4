"""The jars that Spark needs besides its own, in matching versions.

Spark's Kafka connector, like Apache Iceberg and Delta Lake, matches one minor version of Spark
("4.1"). The connector is published for each patch version, but later than PySpark: a PySpark that
is newer than every connector of its minor version gets the newest one. The connector depends on a
token provider of the same version, which is not published, so Spark's `--packages` cannot resolve
the connector. So this module lists every jar itself, with the newest published token provider, and
no transitive dependencies are fetched. The extra `spark` in pyproject.toml allows exactly the minor
versions in `LINES`; a test checks this.

The file systems of object stores come from Hadoop, in the version that PySpark holds. hadoop-aws
names Amazon's SDK for Java as one `bundle` of all 400 services, 641 MB. S3A needs the modules for
S3, its transfers (copies, so renames), and what credentials may come from (STS for web identities,
SSO for profiles): 12 MB with everything below them that PySpark does not hold itself, such as
Netty. They have the SDK's version of that bundle.

`iceberg-aws` is another, newer SDK for Iceberg's own S3FileIO, with the same class names, so it
does not go together with `s3`.
"""

from collections.abc import Collection
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError


class Jar(NamedTuple):
    """One jar on Maven Central, and the SHA-256 of the file."""

    group: str
    name: str
    version: str
    sha256: str
    classifier: str = ""
    """Maven's name of a variant: `shaded` has its dependencies inside."""

    @property
    def file_name(self) -> str:
        variant = self.classifier and f"-{self.classifier}"
        return f"{self.name}-{self.version}{variant}.jar"


LINES = ("4.1",)
"""The supported minor versions of Spark."""

HADOOP = "3.4.2"
"""The version of Hadoop in PySpark 4.1; its file systems work with no other."""

_CONNECTORS = {
    "4.1.0": "a335b885043bbe0d553ab70738418a45eb4cda94a28718e4b62a347046c03723",
    "4.1.1": "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
    "4.1.2": "1dce8c690aea67bba8942eaa0280aa5dbc16e0c7c64bd0b1777b919b36d7ab2e",
    "4.1.3": "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
}
_CONNECTOR_NEEDS = (
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
)
_ICEBERG = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.11.0",
        "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    ),
)
_DELTA = (
    Jar(
        "io.delta",
        "delta-spark_4.1_2.13",
        "4.4.0",
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)
_SDK = "2.29.52"
_SDK_MODULES = {
    "annotations": "8cd8bd8afd7eca5a367f69fd87427f6d9f3e7d359962122da24d71f1963f00cd",
    "apache-client": "c96494be30ecac6f0ab7a35fdd91a4c77ca8a5daf62f3d9d84644ef0f0524dc6",
    "arns": "f5a4d1d9b4e4fc63c9bda49bcf1c59d23fd876b276c6b43aaca12969337303a6",
    "auth": "4d8143b6198dc7a530c2ccdd813129c132b96736086c0d4fea85480b9bdbc5fe",
    "aws-core": "eb560c064fbaac7e2e7f4a77ac343d3083bea0d7f6e2c69ba022d3f3e859be90",
    "aws-json-protocol": "0b174a591bac933b72b701c2fc73f73ba5dde790bf7d61ce922d4ba098f62072",
    "aws-query-protocol": "1b117672963ee5059c45f2aadb110f191b578d108d8f08d7c7a59e6c0b098a8e",
    "aws-xml-protocol": "daf87b429373ad586d165003b5b1d4fe498c6472eb65ec9a9e2aa7d56f3917dd",
    "checksums-spi": "21193b9b648843dcaff493f0dd80abab9ee6871b203b9218120554698d8f7b8a",
    "checksums": "bca99ff25c9b917d6be03e5dce78ad5328e7dca485e96024fa8476e4192a800a",
    "crt-core": "4e1f33de21b688695fec91b977ddfa99e9d376edcbad06a62b0c138c60b37de4",
    "endpoints-spi": "e54f246c668d70b55cffe0c8fad18d4465e74e22db75139918bd30610093d1e6",
    "http-auth-aws-eventstream": "565a4aacce955c5ffaed551f6faaaa958e9e92b2f8514c8482f664edb2bab576",
    "http-auth-aws": "7ae124e81ac0c2860bb61fdde34a388dbe823fef8509dd46a6bec805ada90308",
    "http-auth-spi": "7a2168c5a7baa856d7ae9f9c4f7522d2db9f1361108c38f5b6ece66f249e6a2d",
    "http-auth": "d8aa3bd376aaec7196396e65fe8755f1fdd169e51357f8128ecdc7d23a687450",
    "http-client-spi": "8ea61ce3b527779fbfe119e0775c4b7cfdf274a979b1e50596a634685a5b6542",
    "identity-spi": "85104635abf9e5c044aaf7f8951b63efc2ef82051b5ee303571ee2e1fd8b46d0",
    "json-utils": "2652cdb3668311bcff6e643c8612b9fea266423ae1ce33743c84dd7f77904311",
    "metrics-spi": "1db2e3da338148ee40a716e1733c9a5b99e9e6daa4db3aa8bd7e718adafa2510",
    "netty-nio-client": "07238668c9cf54531ee269fd6e2a1e2650fb75d6774d401f406c2a14f26af654",
    "profiles": "fef84619d101838ba45f48d0caddb09a85d9ed8bf869095bd7d2064796856cf7",
    "protocol-core": "7b32e41a3743b422d2edec1670f60b4c1e512fcd5ab7a53fef20742d6b9104d1",
    "regions": "5ee0e26277c679ffa70d83923b0d5f77a53066ecde8610f28be1856947d60eaf",
    "retries-spi": "a4218ea742fc9e07a620629d7a258bfd92b8ea3ef75f1b99193d0898ca3efe99",
    "retries": "ca3752ba31399721980c6398992921ff5aa164e084b4c14484333df58c76a353",
    "s3-transfer-manager": "0c9e654637247187a7e2494eb7a8799477a772a7d554cd3ae787cd3e3bae3c55",
    "s3": "abaedea7e68063e9c4ab090f80d14b9884c57b50953bfe6e5acaa23025609efa",
    "sdk-core": "ea8e9856569f85075a8a806d0481c4bd848c98b24fd6d706fc0b5883fc4604dc",
    "sso": "c4e897d8fe008837e921a03479972239548b5f751b6e761a84412e5a5b79ee8e",
    "ssooidc": "c4a54a2aea6c22090da0420db32d0337454d39007827b9830d80e056679468ea",
    "sts": "6495d0457f4e4c3724d8c9c5fe4f6f98c9530a22f92449c4cca5fd03622e4edb",
    "third-party-jackson-core": "eaece3eb60beb8ec09d8a4f48d5bff4110010b03cc23688bdcf2af2eb075cac6",
    "utils": "f150a38f2fec14ced2de6459bfe804f647c88baa573b218646ef89b436a29d42",
}
_SDK_JARS = tuple(
    Jar("software.amazon.awssdk", name, _SDK, sha256) for name, sha256 in _SDK_MODULES.items()
)
_S3 = (
    Jar(
        "org.apache.hadoop",
        "hadoop-aws",
        HADOOP,
        "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9",
    ),
    Jar(
        "org.reactivestreams",
        "reactive-streams",
        "1.0.4",
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
    ),
    Jar(
        "software.amazon.eventstream",
        "eventstream",
        "1.0.1",
        "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822",
    ),
    Jar(
        "software.amazon.s3.analyticsaccelerator",
        "analyticsaccelerator-s3",
        "1.2.1",
        "11029552e37408e41e689b20150f4b372e0b4f232de321ccafd0fcf443cdfb5a",
    ),
)
_ICEBERG_AWS = (
    Jar(
        "org.apache.iceberg",
        "iceberg-aws-bundle",
        "1.11.0",
        "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
    ),
)
_GCS = (
    Jar(
        "com.google.cloud.bigdataoss",
        "gcs-connector",
        "3.0.13",
        "40d1ea5415247e04c23d564ef1d2dda06a8950c17c5c3bc0c125c056375d3e56",
        "shaded",
    ),
)
_ABFS = (
    Jar(
        "org.apache.hadoop",
        "hadoop-azure",
        HADOOP,
        "f02ab756037abaecc45ea1869144ad3a69e25ccd84062bc37805837ca254e21c",
    ),
    Jar(
        "com.microsoft.azure",
        "azure-storage",
        "7.0.1",
        "32249cf9b550e247e257c0a508f93526d35e072509aa637fd33b3d54e267b1e2",
    ),
    Jar(
        "com.microsoft.azure",
        "azure-keyvault-core",
        "1.0.0",
        "d8c6ca5bc1c50fd2c74d81b8731b67aa72fa5c9e086623439ba4e950138937a0",
    ),
    Jar(
        "org.wildfly.openssl",
        "wildfly-openssl",
        "2.1.4.Final",
        "95decbc5d088b40e85f58d7726b8c8f4e3be6312a0f2660c2d714a23cee80279",
    ),
)

_AVRO = (
    # Maven Central has this module for no other patch version of the line.
    Jar(
        "org.apache.spark",
        "spark-avro_2.13",
        "4.1.1",
        "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
    ),
)
AVRO_LIMITS = {
    "org.apache.avro.limits.string.maxLength": 64 << 20,
    "org.apache.avro.limits.bytes.maxLength": 64 << 20,
    "org.apache.avro.limits.collectionItems.maxLength": 8 << 20,
}
"""System properties of Avro: bytes and items that it may allocate on the word of a record."""

KAFKA, ICEBERG, DELTA, AVRO = "kafka", "iceberg", "delta", "avro"
S3, ICEBERG_AWS, GCS, ABFS = "s3", "iceberg-aws", "gcs", "abfs"
KINDS = (KAFKA, ICEBERG, DELTA, AVRO, S3, ICEBERG_AWS, GCS, ABFS)

CATALOGS = ("hadoop", "rest", "jdbc")
"""Iceberg's names of the types of catalogs that the jars of `iceberg` have."""

_KINDS_BY_SCHEME = {"s3a": S3, "s3": S3, "gs": GCS, "abfs": ABFS, "abfss": ABFS}


def kind_of_url(url: str) -> str | None:
    """The kind of jars with the file system of a URL; None if Spark itself has it."""
    scheme, separator, _ = url.partition("://")
    return _KINDS_BY_SCHEME.get(scheme.lower()) if separator else None


def refusal(message: str) -> KafkaError:
    """The error for jars that cannot be had."""
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def unknown_kind(kind: str) -> KafkaError:
    """The error for a kind of jars that does not exist."""
    kinds = f"{', '.join(KINDS[:-1])} and {KINDS[-1]}"
    return refusal(f"no jars are known for {kind!r}; there are {kinds}")


def jars_of(kind: str, spark_version: str) -> tuple[Jar, ...]:
    """The jars of a kind for a version of Spark.

    Raises KafkaError(INVALID_CONFIG), which lists the supported versions, for any other version.
    """
    line = ".".join(spark_version.split(".")[:2])
    if line not in LINES:
        raise refusal(
            f"no jars are known for PySpark {spark_version}, only for {', '.join(LINES)}:"
            f" pip install 'pyspark~={LINES[-1]}.0'"
        )
    if kind == KAFKA:
        newest = [each for each in _CONNECTORS if each.startswith(f"{line}.")][-1]
        version = spark_version if spark_version in _CONNECTORS else newest
        name = "spark-sql-kafka-0-10_2.13"
        connector = Jar("org.apache.spark", name, version, _CONNECTORS[version])
        return (connector, *_CONNECTOR_NEEDS)
    jars_by_kind = {
        ICEBERG: _ICEBERG,
        DELTA: _DELTA,
        AVRO: _AVRO,
        S3: _S3 + _SDK_JARS,
        ICEBERG_AWS: _ICEBERG_AWS,
        GCS: _GCS,
        ABFS: _ABFS,
    }
    if kind not in jars_by_kind:
        raise unknown_kind(kind)
    return jars_by_kind[kind]


def check_together(kinds: Collection[str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) if jars of these kinds do not go together."""
    if S3 in kinds and ICEBERG_AWS in kinds:
        raise refusal(
            "the jars s3 and iceberg-aws hold two versions of Amazon's SDK: use s3 for tables at "
            "s3a:// URLs, or iceberg-aws for an Iceberg catalog that reads S3 itself"
        )
