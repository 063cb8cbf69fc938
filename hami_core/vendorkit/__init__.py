"""Functions that vendors share: requests, selectors, rounding, templates, groups, registers, locks. Public and pure.

Each function follows the rule that HAMi has for most vendors. A vendor with another rule writes its own hook and may
call these functions in it. `hami_core.vendorkit.node` has what the node side needs.
"""

from __future__ import annotations

from hami_core.vendorkit.groups import group_by, largest_first, whole_groups
from hami_core.vendorkit.locks import (
    CONTENTION,
    NODE_LOCK_KEY,
    NODE_LOCK_TIMEOUT,
    PROTOCOL_HAMI,
    PROTOCOL_TIME,
    LockVerdict,
    NodeLock,
    contention_text,
    format_lock,
    format_time_lock,
    judge_lock,
    may_release,
    parse_lock,
)
from hami_core.vendorkit.registers import (
    capacity,
    capacity_devices,
    card_number,
    read_cordon,
    read_csv_register,
    read_csv_registers,
    read_json_register,
    read_pair_scores,
    unregistered_devices,
)
from hami_core.vendorkit.request import (
    RequestDefaults,
    amount_of,
    default_parse_request,
    is_zero_beside_amounts,
    memory_of,
    quantity_of,
)
from hami_core.vendorkit.rounding import ceil_div, round_up_to
from hami_core.vendorkit.selectors import default_check_type, default_check_uuid, mode_accepted
from hami_core.vendorkit.templates import Template, smallest_template, template_named_for
from hami_core.wire.node import Liveness, format_requesting, judge_handshake
from hami_core.wire.quantity import parse_amount, parse_bool_go, parse_quantity, parse_whole
from hami_core.wire.reasons import (
    APP_CLASS_MISMATCH,
    CARD_COMPUTE_UNITS_EXHAUSTED,
    CARD_INSUFFICIENT_CORE,
    CARD_INSUFFICIENT_MEMORY,
    CARD_TYPE_MISMATCH,
    CARD_UUID_MISMATCH,
    CUSTOM_RULE,
    EXCLUSIVE_CONFLICT,
    MIG_INFEASIBLE,
    MODE_NOT_FIT,
    NUMA_NOT_FIT,
    QOS_MISMATCH,
    TOO_FEW_CARDS,
)

__all__ = [
    "APP_CLASS_MISMATCH",
    "CARD_COMPUTE_UNITS_EXHAUSTED",
    "CARD_INSUFFICIENT_CORE",
    "CARD_INSUFFICIENT_MEMORY",
    "CARD_TYPE_MISMATCH",
    "CARD_UUID_MISMATCH",
    "CONTENTION",
    "CUSTOM_RULE",
    "EXCLUSIVE_CONFLICT",
    "MIG_INFEASIBLE",
    "MODE_NOT_FIT",
    "NODE_LOCK_KEY",
    "NODE_LOCK_TIMEOUT",
    "NUMA_NOT_FIT",
    "PROTOCOL_HAMI",
    "PROTOCOL_TIME",
    "QOS_MISMATCH",
    "TOO_FEW_CARDS",
    "Liveness",
    "LockVerdict",
    "NodeLock",
    "RequestDefaults",
    "Template",
    "amount_of",
    "capacity",
    "capacity_devices",
    "card_number",
    "ceil_div",
    "contention_text",
    "default_check_type",
    "default_check_uuid",
    "default_parse_request",
    "format_lock",
    "format_requesting",
    "format_time_lock",
    "group_by",
    "is_zero_beside_amounts",
    "judge_handshake",
    "judge_lock",
    "largest_first",
    "may_release",
    "memory_of",
    "mode_accepted",
    "parse_amount",
    "parse_bool_go",
    "parse_lock",
    "parse_quantity",
    "parse_whole",
    "quantity_of",
    "read_cordon",
    "read_csv_register",
    "read_csv_registers",
    "read_json_register",
    "read_pair_scores",
    "round_up_to",
    "smallest_template",
    "template_named_for",
    "unregistered_devices",
    "whole_groups",
]
