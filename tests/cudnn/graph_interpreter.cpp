#include "tests/cudnn/graph_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "compiler/core/bfloat16.h"
#include "compiler/core/check.h"

namespace tpc::testing {
namespace {

using cuda::cudnn::Dims;
using cuda::cudnn::Library;

struct Record {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<int64_t>> numbers;  // also truth values and enumerators
  std::map<int, std::vector<const Record*>> records;
  std::map<int, std::vector<void*>> pointers;

  int64_t number(int name) const { return numbers.at(name).at(0); }
  const Record& record(int name) const { return *records.at(name).at(0); }
  bool has(int name) const { return records.contains(name); }
};

template <class T, class U>
void assign(std::vector<U>& to, const void* values, int64_t count) {
  const T* from = static_cast<const T*>(values);
  to.assign(from, from + count);
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  *made = new Record{type, {}, {}, {}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Record*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t /*descriptor*/) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Record& record = *static_cast<Record*>(descriptor);
  switch (type) {
    case CUDNN_TYPE_INT64:
      assign<int64_t>(record.numbers[name], values, count);
      break;
    case CUDNN_TYPE_BOOLEAN:
      assign<bool>(record.numbers[name], values, count);
      break;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
      assign<int32_t>(record.numbers[name], values, count);
      break;
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      assign<const Record*>(record.records[name], values, count);
      break;
    case CUDNN_TYPE_VOID_PTR:
      assign<void*>(record.pointers[name], values, count);
      break;
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

const char* error_string(cudnnStatus_t /*status*/) { return "CUDNN_STATUS_BAD_PARAM"; }
void last_error_string(char* message, size_t /*size*/) { *message = '\0'; }

double load(const void* data, cudnnDataType_t type, int64_t i) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return static_cast<double>(static_cast<const float*>(data)[i]);
    case CUDNN_DATA_BFLOAT16:
      return static_cast<double>(static_cast<const BFloat16*>(data)[i]);
    case CUDNN_DATA_INT32:
      return static_cast<const int32_t*>(data)[i];
    default:
      TPC_UNREACHABLE("element type {}", static_cast<int>(type));
  }
}

double rounded(double value, cudnnDataType_t type) {
  auto single = static_cast<float>(value);
  return type == CUDNN_DATA_BFLOAT16 ? static_cast<double>(BFloat16(single)) : static_cast<double>(single);
}

void store(void* data, cudnnDataType_t type, int64_t i, double value) {
  if (type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value));
  }
}

class Interpreter {
 public:
  explicit Interpreter(const Record& pack) {
    const auto& ids = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (size_t i = 0; i < ids.size(); ++i) {
      memory_[ids[i]] = pack.pointers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i];
    }
  }

  void run(const Record& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(operation);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(operation);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(operation);
      default:
        TPC_UNREACHABLE("operation {}", static_cast<int>(operation.type));
    }
  }

 private:
  // A tensor's elements where its strides put them.
  struct Values {
    Dims dims = {};
    Dims strides = {};
    std::vector<double> elements;

    // Heads and other dimensions that are fewer here are shared evenly: all of them, or a group each.
    size_t offset(const Dims& index, const Dims& of) const {
      int64_t sum = 0;
      for (size_t d = 0; d < of.size(); ++d) sum += index[d] * dims[d] / of[d] * strides[d];
      return static_cast<size_t>(sum);
    }
  };

  static int64_t id(const Record& tensor) { return tensor.number(CUDNN_ATTR_TENSOR_UNIQUE_ID); }
  static auto type_of(const Record& tensor) {
    return static_cast<cudnnDataType_t>(tensor.number(CUDNN_ATTR_TENSOR_DATA_TYPE));
  }

  static Values shaped(const Record& tensor) {
    Values values;
    std::ranges::copy(tensor.numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS), values.dims.begin());
    std::ranges::copy(tensor.numbers.at(CUDNN_ATTR_TENSOR_STRIDES), values.strides.begin());
    int64_t last = 0;
    for (size_t d = 0; d < values.dims.size(); ++d) last += (values.dims[d] - 1) * values.strides[d];
    values.elements.assign(static_cast<size_t>(last + 1), std::numeric_limits<double>::quiet_NaN());
    return values;
  }

  template <class Visit>
  static void for_each(const Dims& dims, const Visit& visit) {
    Dims i = {};
    for (i[0] = 0; i[0] < dims[0]; ++i[0])
      for (i[1] = 0; i[1] < dims[1]; ++i[1])
        for (i[2] = 0; i[2] < dims[2]; ++i[2])
          for (i[3] = 0; i[3] < dims[3]; ++i[3]) visit(i);
  }

  Values read(const Record& tensor) const {
    if (tensor.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0) return intermediates_.at(id(tensor));
    Values values = shaped(tensor);
    for_each(values.dims, [&](const Dims& index) {
      size_t at = values.offset(index, values.dims);
      values.elements[at] = load(memory_.at(id(tensor)), type_of(tensor), static_cast<int64_t>(at));
    });
    return values;
  }

  // Sets every element of the result to value(index).
  template <class Value>
  void write(const Record& tensor, const Value& value) {
    Values values = shaped(tensor);
    bool is_intermediate = tensor.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
    for_each(values.dims, [&](const Dims& index) {
      size_t at = values.offset(index, values.dims);
      double computed = value(index);
      if (is_intermediate) {
        values.elements[at] = rounded(computed, type_of(tensor));
      } else {
        store(memory_.at(id(tensor)), type_of(tensor), static_cast<int64_t>(at), computed);
      }
    });
    if (is_intermediate) intermediates_[id(tensor)] = std::move(values);
  }

  void pointwise(const Record& operation) {
    const Record& kind = operation.record(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const Record& result = operation.record(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    auto mode = static_cast<cudnnPointwiseMode_t>(kind.number(CUDNN_ATTR_POINTWISE_MODE));
    Values x = read(operation.record(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    Values y;
    Values choice;
    if (operation.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) {
      y = read(operation.record(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    }
    if (operation.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)) {
      choice = read(operation.record(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
    }
    const Dims dims = shaped(result).dims;
    write(result, [&](const Dims& index) {
      auto of = [&](const Values& values) { return values.elements[values.offset(index, dims)]; };
      switch (mode) {
        case CUDNN_POINTWISE_ADD:
          return of(x) + of(y);
        case CUDNN_POINTWISE_SUB:
          return of(x) - of(y);
        case CUDNN_POINTWISE_MUL:
          return of(x) * of(y);
        case CUDNN_POINTWISE_DIV:
          return of(x) / of(y);
        case CUDNN_POINTWISE_EXP:
          return std::exp(of(x));
        case CUDNN_POINTWISE_LOG:
          return std::log(of(x));
        case CUDNN_POINTWISE_GEN_INDEX:
          return static_cast<double>(index[static_cast<size_t>(kind.number(CUDNN_ATTR_POINTWISE_AXIS))]);
        case CUDNN_POINTWISE_CMP_GE:
          return of(x) >= of(y) ? 1.0 : 0.0;
        case CUDNN_POINTWISE_BINARY_SELECT:
          return of(choice) != 0 ? of(x) : of(y);
        default:
          TPC_UNREACHABLE("pointwise mode {}", static_cast<int>(mode));
      }
    });
  }

  void matmul(const Record& operation) {
    Values x = read(operation.record(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    Values y = read(operation.record(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Record& result = operation.record(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const Dims dims = shaped(result).dims;
    const int64_t depth = x.dims[3];
    TPC_CHECK(depth == y.dims[2], "{} columns times {} rows", depth, y.dims[2]);
    write(result, [&](const Dims& index) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        sum += x.elements[x.offset({index[0], index[1], index[2], k}, {dims[0], dims[1], dims[2], depth})] *
               y.elements[y.offset({index[0], index[1], k, index[3]}, {dims[0], dims[1], depth, dims[3]})];
      }
      return sum;
    });
  }

  void reduce(const Record& operation) {
    const Record& kind = operation.record(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const bool is_max = kind.number(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    Values x = read(operation.record(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const Record& result = operation.record(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    Values sums = shaped(result);
    std::ranges::fill(sums.elements, is_max ? -std::numeric_limits<double>::infinity() : 0.0);
    for_each(x.dims, [&](const Dims& index) {
      double& sum = sums.elements[sums.offset(index, x.dims)];
      double value = x.elements[x.offset(index, x.dims)];
      sum = is_max ? std::max(sum, value) : sum + value;
    });
    write(result, [&](const Dims& index) { return sums.elements[sums.offset(index, sums.dims)]; });
  }

  void reshape(const Record& operation) {
    Values x = read(operation.record(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    const Record& result = operation.record(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    Values y = shaped(result);
    write(result, [&](const Dims& index) { return x.elements[y.offset(index, y.dims)]; });
  }

  std::map<int64_t, void*> memory_;
  std::map<int64_t, Values> intermediates_;
};

}  // namespace

const Library& recording_library() {
  static const Library kLibrary = [] {
    Library library;
    library.get_error_string = error_string;
    library.get_last_error_string = last_error_string;
    library.create_descriptor = create;
    library.destroy_descriptor = destroy;
    library.set_attribute = set;
    library.finalize = finalize;
    return library;
  }();
  return kLibrary;
}

void interpret(const cuda::cudnn::OperationGraph& graph, const cuda::cudnn::Descriptor& variant_pack) {
  Interpreter interpreter(*static_cast<const Record*>(variant_pack.get()));
  for (cudnnBackendDescriptor_t operation : graph.operations()) {
    interpreter.run(*static_cast<const Record*>(operation));
  }
}

}  // namespace tpc::testing
