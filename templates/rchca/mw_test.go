package rchca_test

import (
	"ciddk/ci"
	"ciddk/templates/rchca"
)

func (d *failingDevice) CreateMW(c rchca.MWConfig) (ci.Key, error) {
	if d.on == "CreateMW" {
		return 0, errFirmware
	}
	return d.Device.CreateMW(c)
}
