//go:build long && race

package durability

const raced = true
