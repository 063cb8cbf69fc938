module hami.io/bed/containerd-2

go 1.26.8

require github.com/containerd/containerd/v2 v2.3.7
