"""The binding: structures as C lays them out, and what a faulty driver leads to."""

from __future__ import annotations

import ctypes
import subprocess

import pytest
from hami_ascend import sim
from hami_ascend.dcmi import STRUCTURES, Dcmi, DcmiError


def test_structures_have_the_layout_of_c(tmp_path):
    lines, expected = [], []
    for name, structure in STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        expected.append(f"{name} {ctypes.sizeof(structure)}")
        for member, *_ in structure._fields_:
            lines.append(f'printf("{name}.{member} %zu\\n", offsetof(struct {name}, {member}));')
            expected.append(f"{name}.{member} {getattr(structure, member).offset}")
    body = "\n".join(lines)
    source = tmp_path / "layout.c"
    source.write_text(f'#include "{sim.SOURCE}"\n#include <stddef.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    subprocess.run(["cc", "-std=c11", str(source), "-o", str(tmp_path / "layout")], check=True)
    printed = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n")[:-1] == expected


def test_die_id_has_the_form_of_the_vendors_plugin(npus):
    node = npus(cards=1)
    node.set(die_id="1-20AB-3-4-ffffffff")
    (card,), _ = node.driver().cards()
    assert card.die_id == "00000001-000020AB-00000003-00000004-FFFFFFFF"


def test_boards_with_two_chips_are_listed_chip_by_chip(npus):
    cards, errors = npus(cards=2, model="Ascend910", devices_in_card=2).driver().cards()
    assert not errors
    assert [(c.card_id, c.device_id, c.logic_id) for c in cards] == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]


def test_second_chip_with_the_same_die_id_is_an_error(npus):
    node = npus(cards=2)
    node.set(card=1, die_id=node.die(0))
    cards, (error,) = node.driver().cards()
    assert [card.card_id for card in cards] == [0]
    assert "has the die id of card 0, chip 0" in str(error)


def test_missing_library_is_named(tmp_path):
    with pytest.raises(DcmiError, match=r"dcmi_init: the library can't be loaded.*libno-dcmi\.so.*\(DCMI error -99999"):
        Dcmi(lambda: ["libno-dcmi.so"]).cards()


def test_library_of_an_old_driver_names_what_it_lacks(tmp_path, npus):
    source = tmp_path / "old.c"
    source.write_text("int dcmi_init(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "libold.so")], check=True)
    with pytest.raises(DcmiError, match=r"dcmi_get_card_list: the driver is too old"):
        Dcmi(lambda: [str(tmp_path / "libold.so")]).cards()


def test_library_that_was_replaced_is_loaded_again(npus, tmp_path):
    node = npus(cards=1)
    paths = [str(tmp_path / "absent.so")]
    driver = Dcmi(lambda: paths)
    with pytest.raises(DcmiError, match="can't be loaded"):
        driver.cards()
    paths[0] = node.env["HAMI_ASCEND_DCMI_LIBRARY"]
    assert len(driver.cards()[0]) == 1
    driver.close()
    assert len(driver.cards()[0]) == 1


def test_values_beyond_their_range_are_refused(npus):
    node = npus(cards=1)
    driver = node.driver()
    (card,), _ = driver.cards()
    node.set(utilization=101, memory_used_mib=70000)
    for call in (driver.utilization, driver.memory_used_mib):
        with pytest.raises(DcmiError, match="the answer makes no sense"):
            call(card)


def test_chip_without_hbm_reports_ddr(npus):
    node = npus(cards=1, model="310P3")
    driver = node.driver()
    (card,), _ = driver.cards()
    node.set(memory_used_mib=777)
    assert driver.memory_used_mib(card) == 777
