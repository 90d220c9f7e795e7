//go:build !race

package reference

func raceSent()     {}
func raceReceived() {}
