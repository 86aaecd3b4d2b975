"""How tests start processes that use JAX."""

# XLA then compiles small programs in a third of the time.
FLAGS = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_llvm_disable_expensive_passes=true"
)
