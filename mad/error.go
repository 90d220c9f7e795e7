package mad

import (
	"errors"
	"fmt"
)

// What can be wrong with a datagram or with what shall become one. Functions that judge return an *Error that wraps one of these; test
// with errors.Is.
var (
	ErrLength    = errors.New("wrong length")
	ErrVersion   = errors.New("unknown version")
	ErrClass     = errors.New("not this management class")
	ErrMethod    = errors.New("method not of this class")
	ErrAttribute = errors.New("unknown attribute")
	ErrRange     = errors.New("value does not fit the field")
	ErrReserved  = errors.New("reserved bits not zero")
	ErrAddress   = errors.New("address not usable here")
)

// Error says which field of which layout broke a rule and with which value.
type Error struct {
	Kind   error  // one of the Err… values
	Layout string // the structure: "REQ", "PathRecord"
	Field  string // the Go field, with its path in nested structures: "Primary.FlowLabel"
	Detail string
}

func (e *Error) Error() string {
	return "mad: " + e.Layout + " " + e.Field + ": " + e.Kind.Error() + ": " + e.Detail
}

// Unwrap gives Kind.
func (e *Error) Unwrap() error { return e.Kind }

func errorf(kind error, layout, field, format string, args ...any) error {
	return &Error{Kind: kind, Layout: layout, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// checker keeps the first fault that a Check method finds.
type checker struct {
	layout string
	err    error
}

func (c *checker) fail(kind error, field, format string, args ...any) {
	if c.err == nil {
		c.err = errorf(kind, c.layout, field, format, args...)
	}
}

// fits demands that v has at most that many bits.
func (c *checker) fits(field string, v uint64, bits int) {
	if v>>bits != 0 {
		c.fail(ErrRange, field, "%#x has more than %d bits", v, bits)
	}
}

// within demands low <= v <= high.
func (c *checker) within(field string, v, low, high uint64) {
	if v < low || v > high {
		c.fail(ErrRange, field, "%d, want %d to %d", v, low, high)
	}
}

// zero demands reserved bits to be zero.
func (c *checker) zero(field string, v uint64) {
	if v != 0 {
		c.fail(ErrReserved, field, "%#x", v)
	}
}

// zeros is zero for bytes.
func (c *checker) zeros(field string, b []byte) {
	for i, v := range b {
		if v != 0 {
			c.fail(ErrReserved, field, "byte %d is %#x", i, v)
			return
		}
	}
}
