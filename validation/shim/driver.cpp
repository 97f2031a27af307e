// Launches one kernel of a .cu file (-DKERNEL_FILE, -DKERNEL). Reads grid, block, how to schedule and the parameters
// from standard input; writes the number of bank conflicts and then every buffer to standard output. See __init__.py.
#include <cstdio>
#include <utility>

#include "cuda_cpu.h"

#include KERNEL_FILE

#include "engine.h"

namespace {

constexpr size_t GUARD_BYTES = 64 << 10;  // NaN before and behind every buffer

template <class T>
T read_value() {
    T value;
    if (fread(&value, sizeof value, 1, stdin) != 1) throw std::runtime_error("standard input ends too soon");
    return value;
}

struct Parameter {
    bool is_buffer;
    std::vector<unsigned char> bytes;
    void* address;
};

Parameter read_parameter() {
    Parameter parameter;
    parameter.is_buffer = read_value<uint32_t>();
    const size_t size = read_value<uint64_t>(), guard = parameter.is_buffer ? GUARD_BYTES : 0;
    parameter.bytes.assign(size + 2 * guard, 0xFF);
    unsigned char* start = parameter.bytes.data() + guard;
    if (fread(start, 1, size, stdin) != size) throw std::runtime_error("standard input ends too soon");
    parameter.address = start;
    return parameter;
}

template <class T>
T argument(const Parameter& parameter) {
    T value;
    memcpy(&value, parameter.is_buffer ? (const void*)&parameter.address : parameter.address, sizeof value);
    return value;
}

template <class... Types, size_t... i>
void call(void (*kernel)(Types...), const std::vector<Parameter>& parameters, std::index_sequence<i...>) {
    kernel(argument<Types>(parameters[i])...);
}

template <class... Types>
std::function<void()> bound(void (*kernel)(Types...), const std::vector<Parameter>& parameters) {
    if (parameters.size() != sizeof...(Types))
        throw std::runtime_error("the kernel takes another number of parameters");
    return [kernel, &parameters] { call(kernel, parameters, std::index_sequence_for<Types...>()); };
}

void write_buffer(const Parameter& parameter) {
    const auto& bytes = parameter.bytes;
    for (size_t i = 0; i < GUARD_BYTES; ++i)
        if (bytes[i] != 0xFF || bytes[bytes.size() - 1 - i] != 0xFF)
            throw std::runtime_error("wrote outside a buffer in device memory");
    fwrite(parameter.address, 1, bytes.size() - 2 * GUARD_BYTES, stdout);
}

}  // namespace

int main() try {
    cpu::Launch launch;
    launch.grid = read_value<cpu::Index>();
    launch.block = read_value<cpu::Index>();
    launch.seed = read_value<uint32_t>();
    launch.is_unfair = read_value<uint32_t>();
    cpu::copies_are_eager = read_value<uint32_t>();
    std::vector<Parameter> parameters(read_value<uint32_t>());
    for (Parameter& parameter : parameters) parameter = read_parameter();
    cpu::run_grid(launch, bound(KERNEL, parameters));
    const uint64_t bank_conflicts = cpu::bank_conflicts;
    fwrite(&bank_conflicts, sizeof bank_conflicts, 1, stdout);
    for (const Parameter& parameter : parameters)
        if (parameter.is_buffer) write_buffer(parameter);
    return 0;
} catch (const std::exception& error) {
    fprintf(stderr, "%s\n", error.what());
    return 2;
}
