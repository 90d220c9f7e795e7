// Package madsmock has gomock mocks of MAD services, for tests of what stands on them. Run go generate here after a change of
// mads.Service or mads.Agent; its test does not compile when that was forgotten.
package madsmock

//go:generate go tool mockgen -write_package_comment=false -destination=mocks.go -package=madsmock ciddk/accesslayer/mads Service,Agent
