package u2c

import "fmt"

// USB identity of the adapter.
const (
	VendorID  = 0x0abf
	ProductID = 0x3370
)

// An Opcode is the first byte of a command.
type Opcode uint8

// Commands that package u2c uses.
const (
	OpScan           Opcode = 0x03 // returns the addresses that are acknowledged
	OpReleaseSDA     Opcode = 0x04
	OpReleaseSCL     Opcode = 0x05
	OpDropSCL        Opcode = 0x07
	OpReadSDA        Opcode = 0x08 // returns the level
	OpFirmware       Opcode = 0x0a // returns major and minor version
	OpSerial         Opcode = 0x0b // returns 4 bytes, little endian
	OpStart          Opcode = 0x0c
	OpStop           Opcode = 0x0d
	OpRepeatedStart  Opcode = 0x0e
	OpPutByteAck     Opcode = 0x13 // byte; fails if it is not acknowledged
	OpGetByteAck     Opcode = 0x14 // 1: acknowledge, 0: not; returns the byte
	OpSetSpeed       Opcode = 0x1b // speed code
	OpSetClockSync   Opcode = 0x24 // 1: a target may stretch the clock
	OpSetClockSyncTO Opcode = 0x26 // limit of stretching, 2 bytes, little endian, in units of 0.1 ms
)

// formats holds the number of argument bytes and of payload bytes of each command; the payload of OpScan has any
// length.
var formats = map[Opcode]struct {
	name          string
	args, payload int
}{
	OpScan:           {"SCAN", 0, anyLength},
	OpReleaseSDA:     {"RELEASE_SDA", 0, 0},
	OpReleaseSCL:     {"RELEASE_SCL", 0, 0},
	OpDropSCL:        {"DROP_SCL", 0, 0},
	OpReadSDA:        {"READ_SDA", 0, 1},
	OpFirmware:       {"GET_FW_VERSION", 0, 2},
	OpSerial:         {"GET_SERIAL", 0, 4},
	OpStart:          {"START", 0, 0},
	OpStop:           {"STOP", 0, 0},
	OpRepeatedStart:  {"REPEATED_START", 0, 0},
	OpPutByteAck:     {"PUT_BYTE_ACK", 1, 0},
	OpGetByteAck:     {"GET_BYTE_ACK", 1, 1},
	OpSetSpeed:       {"SET_SPEED", 1, 0},
	OpSetClockSync:   {"SET_CLK_SYNC", 1, 0},
	OpSetClockSyncTO: {"SET_CLK_SYNC_TO", 2, 0},
}

const anyLength = -1

// String returns the command's name.
func (o Opcode) String() string {
	if f, ok := formats[o]; ok {
		return f.name
	}
	return fmt.Sprintf("command 0x%02x", uint8(o))
}

// NumArgs returns the number of argument bytes of a command, and false if the command is unknown.
func (o Opcode) NumArgs() (int, bool) {
	f, ok := formats[o]
	return f.args, ok
}

// A Status is the last byte of an IN message.
type Status uint8

// Statuses.
const (
	StatusOK             Status = 0x00
	StatusFailed         Status = 0x01
	StatusBadAddress     Status = 0x04
	StatusDataError      Status = 0x05
	StatusUnknownCommand Status = 0x06
	StatusNACK           Status = 0x07
	StatusTimeout        Status = 0x09
)

var statusNames = map[Status]string{
	StatusOK:             "ok",
	StatusFailed:         "failed",
	StatusBadAddress:     "bad memory address",
	StatusDataError:      "data error",
	StatusUnknownCommand: "unknown command",
	StatusNACK:           "not acknowledged",
	StatusTimeout:        "timeout",
}

// String returns the status in words.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status 0x%02x", uint8(s))
}
