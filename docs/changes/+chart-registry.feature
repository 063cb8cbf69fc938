**Chart.** Our images need a registry: without `global.imageRegistry` or a `registry` of their own, rendering stops and names the page that builds them.
