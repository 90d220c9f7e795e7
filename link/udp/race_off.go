//go:build !race

package udp

func raceSent()     {}
func raceReceived() {}
