"""Every API with what it needs (Kafka's KafkaApis and ControllerApis), as requests to send."""

from .access_cases import Case
from .access_matrix_cluster import cluster_cases
from .access_matrix_configs import config_cases
from .access_matrix_data import data_cases
from .access_matrix_groups import group_cases
from .access_matrix_topics import topic_cases
from .access_matrix_transactions import transaction_cases

CASES: list[Case] = [
    *data_cases(),
    *group_cases(),
    *transaction_cases(),
    *config_cases(),
    *topic_cases(),
    *cluster_cases(),
]
