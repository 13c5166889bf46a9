"""Commands about clusters, trees and registries."""
