package ciwrap

import "ciddk/ci"

// Each of these types is an object of package ci with a method Unwrap. Embed it in a replacement.
type (
	HCA    struct{ ci.HCA }
	CA     struct{ ci.CA }
	UserCA struct{ ci.UserCA }
	PD     struct{ ci.PD }
	AV     struct{ ci.AV }
	CQ     struct{ ci.CQ }
	SRQ    struct{ ci.SRQ }
	QP     struct{ ci.QP }
	Mcast  struct{ ci.Mcast }
	MR     struct{ ci.MR }
	FMR    struct{ ci.FMR }
	MW     struct{ ci.MW }
	RDD    struct{ ci.RDD }
	EEC    struct{ ci.EEC }
	DMA    struct{ ci.DMA }
	Object struct{ ci.Object }
)

func (o HCA) Unwrap() any    { return o.HCA }
func (o CA) Unwrap() any     { return o.CA }
func (o UserCA) Unwrap() any { return o.UserCA }
func (o PD) Unwrap() any     { return o.PD }
func (o AV) Unwrap() any     { return o.AV }
func (o CQ) Unwrap() any     { return o.CQ }
func (o SRQ) Unwrap() any    { return o.SRQ }
func (o QP) Unwrap() any     { return o.QP }
func (o Mcast) Unwrap() any  { return o.Mcast }
func (o MR) Unwrap() any     { return o.MR }
func (o FMR) Unwrap() any    { return o.FMR }
func (o MW) Unwrap() any     { return o.MW }
func (o RDD) Unwrap() any    { return o.RDD }
func (o EEC) Unwrap() any    { return o.EEC }
func (o DMA) Unwrap() any    { return o.DMA }
func (o Object) Unwrap() any { return o.Object }
