"""The name of a module for a GPU in pickles of earlier versions, whose class was another one."""

from schedlang.networks.module import NetworkModule

DeviceModule = NetworkModule
