// Package systemd contains the units of ddkd and an example of its configuration, for packagers:
//
//	install -D -m 755 ddkd /usr/bin/ddkd
//	install -D -m 644 ddkd.socket ddkd.service /etc/systemd/system
//	install -D -m 644 ddkd.yaml /etc/ddkd.yaml
//	systemctl enable --now ddkd.socket ddkd.service
//
// A vendor's daemon, which has another name, uses copies with its name.
package systemd

import "embed"

// Files are ddkd.service, ddkd.socket and ddkd.yaml.
//
//go:embed ddkd.service ddkd.socket ddkd.yaml
var Files embed.FS
