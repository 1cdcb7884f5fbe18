"""Which functions pass: those whose answer depends on their input rows alone.

Spark's own `deterministic` flag does not tell: it is true for `first`, `mode`, `collect_list` and `max_by`. So what passes is
a list of names, held against Spark's own registry by a test: a function that a later Spark adds is refused until someone
decides. `NAMES` are names of SQL, `CLASSES` the classes that stand in an analysed plan.
"""

from __future__ import annotations

from dataclasses import dataclass

NAMES = frozenset(
    (
        "! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ abs acos acosh add_months aes_decrypt aggregate and any any_value "
        "approx_count_distinct array array_agg array_append array_compact array_contains array_distinct "
        "array_except array_insert "
        "array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size "
        "array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh avg base64 "
        "between bigint "
        "bin binary bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_and_agg bitmap_bit_position bitmap_bucket_number "
        "bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or boolean bround btrim cardinality case cast cbrt ceil "
        "ceiling char char_length character_length chr coalesce collate collation collect_list collect_set concat concat_ws "
        "contains conv convert_timezone cos cosh cot count count_if crc32 csc cume_dist date date_add date_diff date_format "
        "date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear "
        "decimal decode degrees dense_rank div double e element_at elt encode endswith equal_null every exists exp explode "
        "explode_outer expm1 extract factorial filter find_in_set first first_value flatten float floor forall format_number "
        "format_string from_base32 from_csv from_json from_unixtime from_utc_timestamp from_xml get get_json_object getbit "
        "greatest grouping grouping_id hash hex hmac hour hypot if ifnull ilike in initcap inline inline_outer instr int "
        "is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull jaro_winkler_similarity json_array_length "
        "json_object_keys json_tuple lag last last_day last_value lcase lead least left len length levenshtein like listagg ln "
        "locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval make_interval make_time "
        "make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key "
        "map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5 "
        "mean median "
        "min min_by minute mod mode month monthname months_between named_struct nanvl negative next_day not nth_value ntile "
        "nullif nullifzero nvl nvl2 octet_length or overlay parse_json parse_url percent_rank percentile percentile_cont "
        "percentile_disc pi pmod posexplode posexplode_outer position positive pow power printf quarter quote "
        "radians raise_error "
        "range rank reduce regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace "
        "regexp_substr regr_count repeat replace reverse right rint rlike round row_number rpad rtrim schema_of_csv "
        "schema_of_json schema_of_variant schema_of_xml sec second sentences sequence session_window sha sha1 sha2 shiftleft "
        "shiftright shiftrightunsigned sign signum sin sinh size slice smallint some sort_array soundex space split split_part "
        "sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid stack startswith std stddev stddev_pop stddev_samp "
        "str_to_map string string_agg struct substr substring substring_index sum tan tanh time time_bucket time_diff "
        "time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp "
        "timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds tinyint to_base32 to_binary to_char to_csv to_date "
        "to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar "
        "to_variant_object to_xml transform transform_keys transform_values translate trim trunc try_add try_aes_decrypt try_avg "
        "try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod "
        "try_multiply try_parse_json try_parse_url try_subtract try_sum try_to_binary try_to_date try_to_number try_to_time "
        "try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append try_variant_get try_variant_insert "
        "try_variant_set typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp "
        "upper url_decode url_encode validate_utf8 var_pop var_samp variance variant_array_append variant_delete variant_explode "
        "variant_explode_outer variant_get variant_insert variant_set variant_strip_nulls vector_cosine_similarity "
        "vector_inner_product vector_l2_distance vector_norm vector_normalize weekday weekofyear when width_bucket window "
        "window_time xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string "
        "xxhash64 year zeroifnull zip_with | || ~ "
    ).split()
)
"""Functions of SQL that pass. Those whose answer needs an order are looked at by `orders`."""

CLASSES = frozenset(
    (
        "CaseKeyWhen CreateStruct DatetimeSub DecimalDivideWithOverflowCheck GeneratorOuter "
        "IsUnknown IsNotUnknown KnownNotContainsNull "
        "MakeTimestampLTZNanos MakeTimestampNTZNanos MultiGetJsonObject NanosTimestampCast "
        "NullIfResult PositionResult StringDecode "
        "SecondWithFractionNanos SemiStructuredExtract StringInstrWithOccurrence StringSplitSQL YearOfWeek "
        "Abs Acos Acosh Add AddMonths AesDecrypt And AnyValue ArrayAggregate ArrayAppend ArrayCompact "
        "ArrayContains ArrayDistinct "
        "ArrayExcept ArrayExists ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition "
        "ArrayPrepend ArrayRemove ArrayRepeat ArraySize ArraySort ArrayTransform ArrayUnion ArraysOverlap ArraysZip Ascii Asin "
        "Asinh AssertTrue AtLeastNNonNulls Atan Atan2 Atanh Average BRound Base32 Base64 Between Bin BinaryPad BitAndAgg "
        "BitLength BitOrAgg BitXorAgg BitmapAndAgg BitmapBitPosition BitmapBucketNumber BitmapConstructAgg BitmapCount "
        "BitmapOrAgg BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor BoolAnd BoolOr Bucket CaseWhen Cast Cbrt "
        "Ceil CheckOverflow CheckOverflowInSum Chr Coalesce Collate Collation CollectList CollectSet Concat ConcatWs Contains "
        "Conv ConvertTimezone Cos Cosh Cot Count CountIf Crc32 CreateArray CreateMap CreateNamedStruct Csc CsvToStructs CumeDist "
        "DateAdd DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DatePart DateSub DayName DayOfMonth "
        "DayOfWeek DayOfYear Days DecimalAddNoOverflowCheck DecimalSubtractNoOverflowCheck Decode DenseRank Divide "
        "DivideDTInterval DivideInterval DivideYMInterval DropField ElementAt Elt Encode EndsWith EqualNull "
        "EqualNullSafe EqualTo "
        "EulerNumber Exp Explode Expm1 Extract ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes "
        "ExtractANSIIntervalMonths ExtractANSIIntervalSeconds ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours "
        "ExtractIntervalMinutes ExtractIntervalMonths ExtractIntervalSeconds ExtractIntervalYears Factorial FindInSet First "
        "Flatten Floor FormatNumber FormatString FromUTCTimestamp FromUnixTime Get GetArrayItem GetArrayStructFields "
        "GetJsonObject GetMapValue GetStructField GetTimestamp GreaterThan GreaterThanOrEqual Greatest Grouping GroupingID Hex "
        "Hmac Hour Hours HoursOfTime HyperLogLogPlusPlus Hypot ILike If In InSet InitCap Inline IntegralDivide IsNaN IsNotNull "
        "IsNull IsValidUTF8 IsValidVariant IsVariantNull JaroWinkler JsonObjectKeys JsonToStructs JsonTuple Lag Last "
        "LastDay Lead "
        "Least Left Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny ListAgg Log Log10 Log1p "
        "Log2 Logarithm Lower Luhncheck MakeDTInterval MakeDate MakeDecimal MakeInterval MakeTime MakeTimestamp "
        "MakeTimestampFromDateTime MakeTimestampLTZ MakeTimestampNTZ MakeValidUTF8 MakeYMInterval MapConcat MapContainsKey "
        "MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapSort MapValues MapZipWith Mask Max MaxBy Md5 Median "
        "MicrosToTimestamp MillisToTimestamp Min MinBy Minute MinutesOfTime Mode Month MonthName Months MonthsBetween Multiply "
        "MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash NTile NaNvl NanosToTimestamp NextDay Not NotLikeAll "
        "NotLikeAny NthValue NullIf NullIfZero Nvl Nvl2 OctetLength Or Overlay ParseJson ParseToDate ParseToTimestamp ParseUrl "
        "PercentRank Percentile PercentileCont PercentileDisc Pi PivotFirst Pmod PosExplode Pow PreciseTimestampConversion "
        "Quarter Quote RLike RaiseError Range Rank RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace "
        "RegExpSubStr RegrCount Remainder ResolvedCollation Reverse Right Rint Round RoundCeil RoundFloor RowNumber ST_AsBinary "
        "ST_GeogFromWKB ST_GeomFromWKB ST_SetSrid ST_Srid SchemaOfCsv SchemaOfJson SchemaOfVariant SchemaOfXml Sec Second "
        "SecondWithFraction SecondsOfTime SecondsOfTimeWithFraction SecondsToTimestamp Sentences Sequence SessionWindow "
        "Sha1 Sha2 "
        "ShiftLeft ShiftRight ShiftRightUnsigned Signum Sin Sinh Size Slice SortArray SoundEx SplitPart Sqrt Stack StartsWith "
        "StddevPop StddevSamp StringInstr StringLPad StringLocate StringRPad StringRepeat StringReplace StringSpace StringSplit "
        "StringToMap StringToTimestamp StringTranslate StringTrim StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv "
        "StructsToJson StructsToXml Substring SubstringIndex Subtract SubtractDates SubtractTimes SubtractTimestamps Sum "
        "Tan Tanh "
        "TimeAddInterval TimeBucket TimeDiff TimeFromMicros TimeFromMillis TimeFromSeconds TimeToMicros TimeToMillis "
        "TimeToSeconds TimeTrunc TimeWindow TimestampAdd TimestampAddInterval TimestampAddYMInterval TimestampDiff ToBinary "
        "ToCharacter ToDegrees ToNumber ToRadians ToTime ToUTCTimestamp ToUnixTimestamp ToVariantObject TransformKeys "
        "TransformValues TruncDate TruncTimestamp TryAdd TryAesDecrypt TryAverage TryDivide TryElementAt TryEval TryMakeInterval "
        "TryMakeTimestamp TryMakeTimestampFromDateTime TryMod TryMultiply TryParseUrl TrySubtract TryToBinary TryToNumber "
        "TryToTimestampExpressionBuilder TryUrlDecode TryValidateUTF8 TypeOf UnBase32 UnBase64 UnaryMinus UnaryPositive Unhex "
        "UnixDate UnixMicros UnixMillis UnixNanos UnixSeconds UnixTimestamp UnscaledValue UpdateFields Upper UrlDecode UrlEncode "
        "ValidateUTF8 VariancePop VarianceSamp VariantArrayAppend VariantDelete VariantExplode VariantGet VariantInsert "
        "VariantSet VariantStripNulls VectorCosineSimilarity VectorInnerProduct VectorL2Distance VectorNorm VectorNormalize "
        "WeekDay WeekOfYear WidthBucket WindowTime WithField XPathBoolean XPathDouble XPathFloat XPathInt XPathList XPathLong "
        "XPathShort XPathString XmlToStructs XxHash64 Year Years ZeroIfNull ZipWith "
    ).split()
)
"""Classes of expressions that pass."""

INTERNAL = frozenset(
    (
        "AggregateExpression Alias AttributeReference CommonExpressionDef CommonExpressionRef CurrentRow "
        "EmptyRow Exists FoldableUnevaluable InSubquery Invoke KnownFloatingPointNormalized "
        "KnownNotNull KnownNullable "
        "LambdaFunction LateralSubquery ListQuery Literal NamedLambdaVariable NormalizeNaNAndZero OuterReference "
        "OuterScopeReference PromotePrecision PythonUDAF PythonUDF ScalarSubquery SortOrder SpecifiedWindowFrame StaticInvoke "
        "UnboundedFollowing UnboundedPreceding UnspecifiedFrame WindowExpression WindowSpecDefinition With "
    ).split()
)
"""Classes by which Spark holds expressions together; they compute nothing that rows do not decide."""


@dataclass(frozen=True)
class Refusal:
    """Why a function cannot be kept up to date, and what to write instead."""

    why: str
    instead: str | None = None


_DIFFERS = "whose value would differ between the stream and the batch answer"
_CLOCK = Refusal(_DIFFERS, "hr.now(), the clock of the row's epoch")
_CHANCE = Refusal(_DIFFERS, "hr.random(seed=7), which depends on the row's position in the log")
_WHO = Refusal("which names the session, not the data")
_WHERE = Refusal("which depends on how Spark cut the work", "_partition and _offset, the row's position in the log")
_SKETCH = Refusal(
    "whose answer moves with the partitioning of its rows", "count(DISTINCT x), percentile(x, 0.5) or approx_count_distinct(x)"
)
_MOMENTS = Refusal("whose last digits move with the order of its rows", "sums that it is made of: count, sum(x), sum(x * y)")
_ELSEWHERE = Refusal("which reads something that is not an input")
_UNDECIDED = Refusal("of which nobody has decided yet whether it can be kept up to date")

_REFUSED_NAMES: tuple[tuple[str, Refusal], ...] = (
    (
        "curdate current_date current_time current_timestamp localtime localtimestamp now",
        _CLOCK,
    ),
    (
        "aes_encrypt rand randn random randstr shuffle uniform uuid",
        _CHANCE,
    ),
    (
        "current_catalog current_database current_path current_schema current_timezone current_user session_user user version",
        _WHO,
    ),
    (
        "input_file_block_length input_file_block_start input_file_name monotonically_increasing_id spark_partition_id",
        _WHERE,
    ),
    (
        "corr covar_pop covar_samp kurtosis regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy "
        "regr_syy skewness vector_avg vector_sum",
        _MOMENTS,
    ),
    (
        "collations java_method python_worker_logs reflect sql_keywords try_reflect",
        _ELSEWHERE,
    ),
    (
        "approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate "
        "count_min_sketch histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg "
        "kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double "
        "kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
        "kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float "
        "kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint "
        "kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double "
        "kll_sketch_to_string_float percentile_approx theta_difference theta_intersection theta_intersection_agg "
        "theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg tuple_difference_double "
        "tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer "
        "tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double "
        "tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer "
        "tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer "
        "tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer "
        "tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer tuple_union_theta_double "
        "tuple_union_theta_integer",
        _SKETCH,
    ),
    (
        "collect_union counter_diff from_avro from_protobuf measure schema_of_avro schema_of_variant_agg to_avro to_protobuf",
        _UNDECIDED,
    ),
)
REFUSED = {name: refusal for names, refusal in _REFUSED_NAMES for name in names.split()}
"""Functions of SQL that are refused, each with its reason."""

_REFUSED_CLASSES: tuple[tuple[str, Refusal], ...] = (
    (
        "CurrentBatchTimestamp CurrentDate CurrentTime CurrentTimestamp CurrentTimestampNanos CurrentTimestampPrecision "
        "LocalTimestamp LocalTimestampNanos Now",
        _CLOCK,
    ),
    (
        "AesEncrypt Rand RandStr Randn Shuffle Uniform Uuid",
        _CHANCE,
    ),
    (
        "CurrentCatalog CurrentDatabase CurrentPath CurrentTimeZone CurrentUser SparkVersion",
        _WHO,
    ),
    (
        "InputFileBlockLength InputFileBlockStart InputFileName MonotonicallyIncreasingID SparkPartitionID",
        _WHERE,
    ),
    (
        "Corr CovPopulation CovSample Kurtosis PearsonCorrelation Product RegrAvgX RegrAvgY RegrIntercept RegrR2 "
        "RegrReplacement RegrSXX RegrSXY RegrSYY RegrSlope Skewness VectorAvg VectorSum",
        _MOMENTS,
    ),
    (
        "CallMethodViaReflection Collations SQLKeywords TryReflect",
        _ELSEWHERE,
    ),
    (
        "ApproxTopK ApproxTopKAccumulate ApproxTopKCombine ApproxTopKEstimate ApproximatePercentile CountMinSketchAgg "
        "HistogramNumeric HllSketchAgg HllSketchEstimate HllUnion HllUnionAgg KllMergeAggBigint KllMergeAggDouble "
        "KllMergeAggFloat KllSketchAggBigint KllSketchAggDouble KllSketchAggFloat KllSketchGetNBigint KllSketchGetNDouble "
        "KllSketchGetNFloat KllSketchGetQuantileBigint KllSketchGetQuantileDouble KllSketchGetQuantileFloat "
        "KllSketchGetRankBigint KllSketchGetRankDouble KllSketchGetRankFloat KllSketchMergeBigint KllSketchMergeDouble "
        "KllSketchMergeFloat KllSketchToStringBigint KllSketchToStringDouble KllSketchToStringFloat ThetaDifference "
        "ThetaIntersection ThetaIntersectionAgg ThetaSketchAgg ThetaSketchEstimate ThetaUnion ThetaUnionAgg "
        "TupleDifferenceDouble TupleDifferenceInteger TupleDifferenceThetaDouble TupleDifferenceThetaInteger "
        "TupleIntersectionAggDouble TupleIntersectionAggInteger TupleIntersectionDouble TupleIntersectionInteger "
        "TupleIntersectionThetaDouble TupleIntersectionThetaInteger TupleSketchEstimateDouble TupleSketchEstimateInteger "
        "TupleSketchSummaryDouble TupleSketchSummaryInteger TupleSketchThetaDouble TupleSketchThetaInteger",
        _SKETCH,
    ),
)
_BY_CLASS = {name: refusal for names, refusal in _REFUSED_CLASSES for name in names.split()}


def refusal_of(cls: str) -> Refusal | None:
    """Why an expression of this class does not pass; None where it does.

    >>> refusal_of("Upper") is None
    True
    >>> refusal_of("Rand").why
    'whose value would differ between the stream and the batch answer'
    """
    if cls in CLASSES or cls in INTERNAL:
        return None
    return _BY_CLASS.get(cls, _UNDECIDED)
