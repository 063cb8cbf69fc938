module hami.io/bed/containerd-1.7

go 1.26.0

require github.com/containerd/containerd v1.7.35
