package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
)

// service is a service of QPs, for the cases that exist once for each.
type service struct {
	name    string // part of the case ids
	typ     ci.QPType
	feature validate.Feature
	caps    ci.Caps // capabilities that traffic on the service needs
}

// services are those that a consumer connects.
var services = []service{
	{"rc", ci.RC, validate.FeatureRC, 0},
	{"uc", ci.UC, validate.FeatureUC, ci.CapUC},
	{"ud", ci.UD, validate.FeatureUD, ci.CapUD | ci.CapAV},
}

// perService is a pattern of cases that exist for each service.
type perService[T any] struct {
	service
	of T
}

// eachService returns the rows of a matrix of services and patterns, service by service.
func eachService[T any](patterns []T) []perService[T] {
	var out []perService[T]
	for _, s := range services {
		for _, p := range patterns {
			out = append(out, perService[T]{s, p})
		}
	}
	return out
}
