**Hygon.** The new package `hami-hygon` places pods on nodes that HAMi's DCU plugin serves (`hygon.com/dcunum`), and on nodes with Hygon's own HCU plugin (`hygon.com/hcunum`).
