module epd-operator/e2e/go/pause

go 1.26.0
