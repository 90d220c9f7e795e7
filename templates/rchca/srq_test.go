package rchca_test

import "ciddk/templates/rchca"

func (d *failingDevice) CreateSRQ(c rchca.SRQConfig) (rchca.SRQN, error) {
	if d.on == "CreateSRQ" {
		return 0, errFirmware
	}
	return d.Device.CreateSRQ(c)
}

// SetLimit is the second command of a create.
func (d *failingDevice) SetLimit(n rchca.SRQN, limit int) error {
	if d.on == "SetLimit" {
		return errFirmware
	}
	return d.Device.SetLimit(n, limit)
}
