**Ascend.** Hard and soft split never share one NPU (`ModeNotFit`), and vNPUs never need more AI cores or AI CPUs than the
chip has (`CardInsufficientCore`): a 910B2 takes six `vir03_1c_8g`, not eight.
