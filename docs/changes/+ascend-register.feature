**Ascend.** A node whose kubelet offers no NPU, because its device plugin stopped, takes no new pods. A 910C request for
part of one NPU in a super pod, which HAMi makes two vNPUs that can't start, is denied with the reason.
